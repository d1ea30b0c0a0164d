// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"

/// `main` of a *_fuzz.cc, which defines the two functions below and includes this header once. Every seed is tried as
/// it is, then mutations of the seeds, the same ones in every run: a smoke test of some seconds, not a search.
///
///     manifest_fuzz [ROUNDS [FIRST]]     a failure prints the line that repeats its round alone

/// Tries one input; whatever goes wrong dies (a sanitizer, QUERN_CHECK).
void fuzz_one(std::span<const std::byte> input);

struct FuzzPlan {
  std::vector<std::string> seeds;  ///< good inputs, and odd ones that once failed
  uint64_t rounds = 20'000;        ///< so many that it takes some seconds in a build with checks
  std::vector<std::string> words;  ///< what a mutation may paste: tokens of the format
};
FuzzPlan fuzz_plan();

namespace quern::fuzz {

inline volatile uint64_t current_round = 0;
inline const char* program = "";

inline std::string mutate(const FuzzPlan& plan, uint64_t round) {
  Prng prng(round * 0x9e3779b9 + 1);
  std::string text = plan.seeds[prng.below(plan.seeds.size())];
  auto any_place = [&] { return prng.below(text.size() + 1); };
  for (uint64_t left = prng.below(2) ? 1 : 2 + prng.below(5); left > 0; --left) {
    const size_t at = any_place();
    const size_t length = prng.below(1 + std::min<size_t>(text.size() - at, 64));
    switch (prng.below(7)) {
      case 0:  // one bit
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << prng.below(8)));
        break;
      case 1:  // one byte, often an extreme one
        if (at < text.size())
          text[at] = prng.below(2) ? static_cast<char>(prng.next()) : "\0\xff\x7f\x80"[prng.below(4)];
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(any_place(), text.substr(at, length));
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        if (!plan.words.empty()) text.insert(at, plan.words[prng.below(plan.words.size())]);
        break;
      default: {  // the tail of another seed
        const std::string& other = plan.seeds[prng.below(plan.seeds.size())];
        text = text.substr(0, at) + other.substr(prng.below(other.size() + 1));
      }
    }
  }
  return text;
}

inline void die_with_round(int signal) {
  std::fprintf(stderr, "fuzz: died in round %llu; again: %s 1 %llu\n", static_cast<unsigned long long>(current_round),
               program, static_cast<unsigned long long>(current_round));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace quern::fuzz

#ifdef QUERN_LIBFUZZER
// A search instead of a smoke test: tools/fuzz.sh links it with clang's own main.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_one(std::as_bytes(std::span(data, size)));
  return 0;
}
// Writes the seeds where the search begins.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* folder = *argc > 1 ? (*argv)[*argc - 1] : ".";
  const FuzzPlan plan = fuzz_plan();
  for (size_t i = 0; i < plan.seeds.size(); ++i)
    if (std::FILE* file = std::fopen((std::string(folder) + "/seed" + std::to_string(i)).c_str(), "wb")) {
      std::fwrite(plan.seeds[i].data(), 1, plan.seeds[i].size(), file);
      std::fclose(file);
    }
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace quern;
  const FuzzPlan plan = fuzz_plan();
  const uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : plan.rounds;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  fuzz::program = argv[0];
  for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, fuzz::die_with_round);
  if (argc <= 2)
    for (const std::string& seed : plan.seeds) fuzz_one(as_bytes_of(seed));
  for (uint64_t round = first; round < first + rounds; ++round) {
    fuzz::current_round = round;
    fuzz_one(as_bytes_of(fuzz::mutate(plan, round)));
  }
  std::printf("fuzz: %zu seeds and %llu mutations\n", plan.seeds.size(), static_cast<unsigned long long>(rounds));
  return 0;
}
#endif
