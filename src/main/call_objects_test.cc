// SPDX-License-Identifier: Apache-2.0
//
// Objects as inputs of calls, as far as only a caller in the daemon's own process shows: what a call read is free the
// moment its caller hears of its end, not when the caller is done with the answer.
#include <algorithm>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "daemon/daemon_waits.h"
#include "function/tar.h"
#include "main/daemon_test.h"
#include "os/file.h"

namespace quern::main {
namespace {

constexpr uint64_t kObjectBytes = 256 * kKiB;

class CallObjects : public DaemonTest {
 protected:
  void SetUp() override {
    start([](daemon::Config& config) { config.host_bytes = kObjectBytes * 3 / 2; });  // room for one of them
  }
  void deploy() {
    Files files;
    for (const char* name : {"function.yaml", "copy.cl"}) {
      auto bytes = os::read_file(std::string("examples/copy/") + name);
      ASSERT_TRUE(bytes.ok()) << bytes.error().text;
      files[name] = *std::move(bytes);
    }
    auto tar = write_tar(files);
    ASSERT_TRUE(tar.ok());
    const auto deployed = daemon::deploy_and_wait(*daemon_, *tenant_, "copy", *std::move(tar));
    ASSERT_TRUE(deployed.ok()) << deployed.error().text;
  }
  std::string put(std::byte value) {
    const auto stored = daemon::put_and_wait(*daemon_, *tenant_, Bytes(kObjectBytes, value));
    return stored.ok() ? stored->id : "";
  }
  Result<std::unique_ptr<daemon::Call>> call(const std::string& object) {
    QUERN_TRY(const auto function, daemon_->find(*tenant_, "copy", ""));
    daemon::CallOptions options;
    QUERN_TRY(options.objects, (answer_to<std::vector<daemon::ObjectRef>>(
                                   [&](auto done) { daemon_->open_objects(*tenant_, {object}, std::move(done)); })));
    CallSpec spec;
    spec.inputs.push_back({"input", Dtype::kUint8, {static_cast<int64_t>(kObjectBytes)}});
    QUERN_TRY(auto call, daemon_->prepare(*tenant_, function, spec, options));
    options.objects.clear();
    std::binary_semaphore done{0};
    std::unique_ptr<daemon::Call> ended;
    daemon_->submit(std::move(call), [&](std::unique_ptr<daemon::Call> back) {
      ended = std::move(back);
      done.release();
    });
    done.acquire();
    if (ended->error) return *ended->error;
    return ended;
  }
};

TEST_F(CallObjects, AreFreeWhenTheCallerHearsOfTheEnd) {
  deploy();
  const std::string one = put(std::byte{1}), other = put(std::byte{2});
  ASSERT_NE(one, other);
  const auto first = call(one);
  ASSERT_TRUE(first.ok()) << first.error().text;
  const auto second = call(other);  // with the first not let go of
  ASSERT_TRUE(second.ok()) << second.error().text;
  for (const auto& [ended, value] : {std::pair(&*first, std::byte{1}), std::pair(&*second, std::byte{2})})
    EXPECT_TRUE(std::ranges::all_of((*ended)->outputs[0].bytes, [&](std::byte byte) { return byte == value; }));
}

}  // namespace
}  // namespace quern::main
