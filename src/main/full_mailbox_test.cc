// SPDX-License-Identifier: Apache-2.0
//
// A strand that has more mail than it can take: what nobody would tell it again still reaches it.
#include <algorithm>
#include <atomic>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "daemon/accounts.h"
#include "daemon/daemon_waits.h"
#include "daemon/profile_view.h"
#include "daemon/story.h"
#include "daemon/trace.h"
#include "function/tar.h"
#include "main/daemon_test.h"
#include "os/file.h"

namespace quern::main {
namespace {

using Places = std::vector<daemon::MemoryPlace>;

class FullMailbox : public DaemonTest {
 protected:
  void SetUp() override {
    start([](daemon::Config&) {});
    Files files;
    for (const char* name : {"function.yaml", "copy.cl"})
      files[name] = os::read_file(std::string("examples/copy/") + name).value();
    const auto deployed = daemon::deploy_and_wait(*daemon_, *tenant_, "copy", write_tar(files).value());
    ASSERT_TRUE(deployed.ok()) << deployed.error().text;
  }
  void call(const daemon::FunctionRef& function) {
    CallSpec spec;
    spec.inputs.push_back({"input", Dtype::kUint8, {16}});
    auto call = daemon_->prepare(*tenant_, function, spec, {});
    ASSERT_TRUE(call.ok()) << call.error().text;
    std::binary_semaphore done{0};
    daemon_->submit(*std::move(call), [&](std::unique_ptr<daemon::Call> ended) {
      EXPECT_FALSE(ended->error) << ended->error->text;
      done.release();
    });
    done.acquire();
  }
  /// How many things of "copy" the strand knows of. Waits until the mailbox has room for the question.
  size_t items_of_copy() {
    for (;;) {
      const auto places = answer_to<Places>([&](auto done) { daemon_->memory(*tenant_, std::move(done)); });
      if (!places.ok()) {
        std::this_thread::yield();
        continue;
      }
      size_t count = 0;
      for (const daemon::MemoryPlace& place : *places)
        count += static_cast<size_t>(
            std::ranges::count_if(place.items, [](const auto& item) { return item.function == "copy"; }));
      return count;
    }
  }
  /// Keeps the strand waiting until `may_go_` is released, and posts to it until it takes no more.
  void fill_mailbox() {
    std::binary_semaphore is_blocked{0};
    daemon_->memory(*tenant_, [&](const Result<Places>&) {
      is_blocked.release();
      may_go_.acquire();
    });
    is_blocked.acquire();
    std::atomic<bool> is_full{false};
    while (!is_full)
      daemon_->requests(*tenant_, [&](const Result<std::vector<daemon::RequestStatus>>& listed) {
        if (!listed.ok()) is_full = true;
      });
  }

  std::binary_semaphore may_go_{0};
};

TEST_F(FullMailbox, ARemovedFunctionIsForgottenAllTheSame) {
  // Held, so that no last holder tells of it a second time.
  const auto function = daemon_->find(*tenant_, "copy", "");
  ASSERT_TRUE(function.ok());
  call(*function);
  ASSERT_GT(items_of_copy(), 0u);

  fill_mailbox();
  std::binary_semaphore is_removed{0};
  daemon_->remove(*tenant_, "copy", [&](const Status& removed) {
    EXPECT_TRUE(removed.ok());
    is_removed.release();
  });
  is_removed.acquire();
  may_go_.release();
  EXPECT_EQ(items_of_copy(), 0u);
}

TEST_F(FullMailbox, EveryQuestionIsRefusedAtOnceAndOnlyOnce) {
  const auto function = daemon_->find(*tenant_, "copy", "");
  ASSERT_TRUE(function.ok());
  CallSpec spec;
  spec.inputs.push_back({"input", Dtype::kUint8, {16}});
  const auto call = daemon_->prepare(*tenant_, *function, spec, {});
  ASSERT_TRUE(call.ok()) << call.error().text;
  fill_mailbox();

  // On this thread, before the method returns: the strand still waits.
  std::vector<std::string> refused;
  const auto refuses = [&](std::string question) {
    return [&refused, question](const auto& answer) {
      EXPECT_FALSE(answer.ok()) << question;
      if (answer.ok()) return;
      EXPECT_EQ(answer.error().code, ErrorCode::kExhausted) << question;
      refused.push_back(question);
    };
  };
  daemon_->requests(*tenant_, refuses("requests"));
  daemon_->cancel(*tenant_, (*call)->id, refuses("cancel"));
  daemon_->why(*tenant_, (*call)->id, refuses("why"));
  daemon_->memory(*tenant_, refuses("memory"));
  daemon_->accounts(*tenant_, daemon::AccountBy::kTenant, refuses("accounts"));
  daemon_->profile(*tenant_, "copy", "", refuses("profile"));
  daemon_->trace(*tenant_, "a", Duration::seconds(1), refuses("trace"));
  daemon_->end_trace(*tenant_, refuses("end_trace"));
  EXPECT_EQ(refused, (std::vector<std::string>{"requests", "cancel", "why", "memory", "accounts", "profile", "trace",
                                               "end_trace"}));
  EXPECT_EQ(daemon_->join(*tenant_, {"program", "fake0"}).error().code, ErrorCode::kExhausted);
  may_go_.release();
  items_of_copy();  // comes back once the strand has read its mail
  EXPECT_EQ(refused.size(), 8u);
}

}  // namespace
}  // namespace quern::main
