// SPDX-License-Identifier: Apache-2.0
//
// A server and its daemon over a disk that does not answer until it is told to.
#include <atomic>
#include <semaphore>
#include <string>
#include <thread>

#include "daemon/daemon_waits.h"
#include "function/tar.h"
#include "main/daemon_test.h"
#include "server/http/test_client.h"
#include "server/server.h"

namespace quern::main {
namespace {

using server::TestClient;

class BlockedDisk : public DaemonTest {
 protected:
  void SetUp() override {
    start([&](daemon::Config& config) {
      config.before_disk = [&] {
        if (!blocks_) return;
        is_blocked_.release();
        may_go_.acquire();
        may_go_.release();  // the others as well
      };
    });
    server::ServerConfig config;
    config.port = 0;
    auto made = server::Server::create(config, *daemon_);
    ASSERT_TRUE(made.ok()) << made.error().text;
    server_ = *std::move(made);
    server_->start();
  }
  void TearDown() override {
    let_go();
    server_->stop(Duration::seconds(5));
    DaemonTest::TearDown();
  }
  void let_go() {
    if (blocks_.exchange(false)) may_go_.release();
  }
  static Bytes copy_tar() {
    Files files;
    for (const char* name : {"function.yaml", "copy.cl"})
      files[name] = os::read_file(std::string("examples/copy/") + name).value();
    return write_tar(files).value();
  }
  static std::string request(const std::string& method, const std::string& path, std::string_view body) {
    return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t1\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }

  std::atomic<bool> blocks_{false};
  std::counting_semaphore<> is_blocked_{0};
  std::binary_semaphore may_go_{0};
  std::unique_ptr<server::Server> server_;
};

TEST_F(BlockedDisk, HoldsUpOnlyThoseWhoWriteToIt) {
  const Bytes tar = copy_tar();
  const auto deployed = daemon::deploy_and_wait(*daemon_, *tenant_, "copy", tar);
  ASSERT_TRUE(deployed.ok()) << deployed.error().text;
  const std::string json = R"({"inputs":[{"name":"input","datatype":"UINT8","shape":[4],"data":[1,2,3,4]}]})";
  TestClient others(server_->port());
  ASSERT_EQ(others.ask(request("POST", "/v2/models/copy/infer", json)).status, 200);

  blocks_ = true;
  TestClient object(server_->port()), changed(server_->port());
  object.send(request("PUT", "/v1/objects", std::string(700'000, 'x')));
  is_blocked_.acquire();
  // The same sources under other settings: they are compared with what is on disk.
  Files files;
  files["function.yaml"] = bytes_of(std::string(as_text(os::read_file("examples/copy/function.yaml").value())) +
                                    "settings: {priority: 2}\n");
  files["copy.cl"] = os::read_file("examples/copy/copy.cl").value();
  changed.send(request("PUT", "/v1/functions/copy", as_text(write_tar(files).value())));
  is_blocked_.acquire();
  for (int i = 0; i < 3; ++i) {
    for (const std::string path : {"/v2/health/ready", "/v2/models/copy/ready", "/v2/models/copy", "/v1/functions"})
      EXPECT_EQ(others.ask(request("GET", path, "")).status, 200) << path;
    EXPECT_EQ(others.ask(request("POST", "/v2/models/copy/infer", json)).status, 200);
    const auto set = others.ask(request("PATCH", "/v1/functions/copy", R"({"priority":3})"));
    EXPECT_EQ(set.status, 200) << set.body;
    EXPECT_EQ(others.ask(request("GET", "/v1/functions/copy/history", "")).status, 200);
  }
  let_go();
  EXPECT_EQ(object.read().status, 201);
  EXPECT_EQ(changed.read().status, 200);
}

TEST_F(BlockedDisk, CallsGoOnWhileTheThreadOfTheStateIsHeld) {
  const auto deployed = daemon::deploy_and_wait(*daemon_, *tenant_, "copy", copy_tar());
  ASSERT_TRUE(deployed.ok()) << deployed.error().text;
  const std::string json = R"({"inputs":[{"name":"input","datatype":"UINT8","shape":[4],"data":[1,2,3,4]}]})";
  // Whoever asks for the history is told on the thread of the state.
  std::binary_semaphore is_held{0}, may_go{0};
  daemon_->history(*tenant_, "copy", [&](const Result<daemon::History>& history) {
    EXPECT_TRUE(history.ok());
    is_held.release();
    may_go.acquire();
  });
  is_held.acquire();
  TestClient changed(server_->port()), others(server_->port());
  changed.send(request("PATCH", "/v1/functions/copy", R"({"priority":3})"));
  for (int i = 0; i < 3; ++i) {
    for (const std::string path : {"/v2/health/live", "/v2/health/ready", "/v2/models/copy/ready", "/v2/models/copy",
                                   "/v1/functions", "/v1/functions/copy"})
      EXPECT_EQ(others.ask(request("GET", path, "")).status, 200) << path;
    EXPECT_EQ(others.ask(request("POST", "/v2/models/copy/infer", json)).status, 200);
  }
  may_go.release();
  EXPECT_EQ(changed.read().status, 200);
}

TEST_F(BlockedDisk, ADeployWhoseCallerHasGoneMeanwhileChangesNothing) {
  const Bytes tar = copy_tar();
  auto upload = daemon_->begin_deploy(*tenant_, tar.size());
  ASSERT_TRUE(upload.ok());
  const auto written = answer_to<Bytes>([&](auto done) { (*upload)->write(Bytes(tar), std::move(done)); });
  ASSERT_TRUE(written.ok());
  // Its sources are being stored when the caller goes: nothing after that is for anybody.
  blocks_ = true;
  const auto deployed = answer_to<daemon::Deployed>([&](auto done) {
    daemon_->deploy(*tenant_, "id", "copy", *std::move(upload), std::move(done));
    is_blocked_.acquire();
    daemon_->abandon_deploy("id");
    let_go();
  });
  ASSERT_FALSE(deployed.ok());
  EXPECT_EQ(deployed.error().code, ErrorCode::kCancelled) << deployed.error().text;
  EXPECT_FALSE(daemon_->find(*tenant_, "copy", "").ok());
}

}  // namespace
}  // namespace quern::main
