// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/fuzz_main.h"
#include "function/tar.h"

using namespace quern;

namespace {

// Most mutations only break a checksum; half of the inputs get theirs set right, so that what is behind it is tried
// too.
void mend(Bytes& tar) {
  for (size_t at = 0; at + 512 <= tar.size(); at += 512) {
    if (std::memcmp(tar.data() + at + 257, "ustar", 5) != 0) continue;
    std::memset(tar.data() + at + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned>(tar[at + i]);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum % 0777777);
    std::memcpy(tar.data() + at + 148, text, 7);
  }
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  Bytes tar(input.begin(), input.end());
  if (input.size() % 2 == 0) mend(tar);
  auto files = read_tar(tar);
  if (!files.ok()) return;
  auto written = write_tar(*files);
  QUERN_CHECK(written.ok(), "what was read can be written");
  auto again = read_tar(*written);
  QUERN_CHECK(again.ok() && *again == *files, "what was written reads the same");
}

FuzzPlan fuzz_plan() {
  auto seed = [](const Files& files) { return std::string(as_text(*write_tar(files))); };
  FuzzPlan plan;
  plan.rounds = 50'000;
  plan.seeds = {seed({}), seed({{"a", Bytes(3)}}), seed({{"function.yaml", Bytes(700)}, {"d/b.cl", Bytes(512)}}),
                seed({{std::string(150, 'x') + "/y", Bytes(1)}})};
  plan.words = {"../", "/", "./",  std::string(512, '\0'), "ustar", "30 path=/etc/passwd\n", "11 size=99\n", "x", "L",
                "5",   "2", "\x80"};
  return plan;
}
