// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <semaphore>
#include <string>
#include <utility>

#include "base/hash.h"
#include "daemon/daemon.h"
#include "os/file.h"

namespace quern::main {

/// A daemon in the test's own process, with one tenant and the fake device.
class DaemonTest : public testing::Test {
 protected:
  /// `change`: what is special about its config, which has its state folder by then.
  template <class F>
  void start(F&& change) {
    std::string folder = testing::TempDir() + "quern_daemon_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    daemon::Config config;
    daemon::DeviceConfig& device = config.devices.emplace_back();
    device.name = "fake0";
    device.driver = "fake";
    config.tenants = {{"t1", sha256("t1"), "", 1, {}}};
    config.state_folder = folder_;
    change(config);
    auto created = daemon::Daemon::create(std::move(config));
    ASSERT_TRUE(created.ok()) << created.error().text;
    daemon_ = std::move(*created);
    tenant_ = *daemon_->authenticate("t1");
  }
  void TearDown() override {
    if (daemon_) daemon_->stop(Duration::seconds(5));
    daemon_.reset();
    os::remove_tree(folder_);
  }

  /// What `ask` is answered.
  template <class T, class F>
  static Result<T> answer_to(F&& ask) {
    std::binary_semaphore done{0};
    Result<T> answer = internal("no answer");
    ask([&](Result<T> given) {
      answer = std::move(given);
      done.release();
    });
    done.acquire();
    return answer;
  }

  std::string folder_;
  std::unique_ptr<daemon::Daemon> daemon_;
  const daemon::Tenant* tenant_ = nullptr;
};

}  // namespace quern::main
