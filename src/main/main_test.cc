// SPDX-License-Identifier: Apache-2.0
//
// Daemons start executors and builders, which are the program that runs, as programs that join them are: in tests, this
// one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "builder/builder.h"
#include "executor/executor.h"
#include "hal/fake/fake_driver.h"
#include "main/joined_program_test.h"
#include "os/process.h"

int main(int argc, char** argv) {
  using namespace quern;
  const std::string_view role = argc > 1 ? argv[1] : "";
  if (role == "executor")
    _exit(executor::run(os::Fd(os::kChildSocket), [](const std::string&) { return hal::fake::create_driver(); }));
  if (role == "builder")
    _exit(builder::run(os::Fd(os::kChildSocket), [](const std::string&) { return hal::fake::create_driver(); }));
  if (role == "program") _exit(quern::main::serve_joined_program(os::Fd(os::kChildSocket)));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
