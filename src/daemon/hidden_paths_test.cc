// SPDX-License-Identifier: Apache-2.0
#include "daemon/hidden_paths.h"

#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

TEST(HiddenPaths, EveryPathBelowTheFolderIsReplaced) {
  EXPECT_EQ(without_paths("/srv/state/objects/ab: write: no space; '/srv/state' is full", "/srv/state"),
            "the server's disk: write: no space; 'the server's disk' is full");
  EXPECT_EQ(without_paths("nothing to hide", "/srv/state"), "nothing to hide");
  EXPECT_EQ(without_paths("/srv/state", ""), "/srv/state");
}

TEST(HiddenPaths, ABlankOrColonInTheNameOfTheFolderHidesTheRestOfThePathToo) {
  for (const std::string folder : {"/srv/my state", "/srv/state:2", "/srv/it's \"state\""})
    EXPECT_EQ(without_paths(folder + "/run/executor-1/k.so: write: no space", folder),
              "the server's disk: write: no space")
        << folder;
}

}  // namespace
}  // namespace quern::daemon
