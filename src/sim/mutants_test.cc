// SPDX-License-Identifier: Apache-2.0
//
// The checkers are checked: sched/mutants.txt lists deliberate bugs of the core, one a line, `n checker what`. With
// each of them switched on, seeds are run until a checker fires. A core that gives up by itself (QUERN_CHECK) counts as
// caught by "check", so every mutant has a process of its own. `./quern test --long` runs 300 seeds with every mutant,
// to see how many catch it. Only in a build of sched that has the mutants.
#ifdef QUERN_MUTANTS
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sched/mutant.h"
#include "sim/search.h"

namespace quern::sim {
namespace {

constexpr uint64_t kMostSeeds = 1000;
// Seeds of the table of all seeds, which takes each mutant through every one of them: about 25 minutes on two cores.
constexpr uint64_t kTableSeeds = 300;
static_assert(kTableSeeds % 2 == 0, "two seeds run at a time");

struct Mutant {
  int number = 0;
  std::string checker, what;
};

std::vector<Mutant> mutants() {
  std::ifstream file("src/sched/mutants.txt");
  std::vector<Mutant> list;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Mutant mutant;
    words >> mutant.number >> mutant.checker >> std::ws;
    std::getline(words, mutant.what);
    list.push_back(mutant);
  }
  return list;
}

struct Caught {
  std::string by;  ///< a checker, or "check" or "signal"; empty: nothing fired
  uint64_t seed = 0;
};

/// Runs the seeds, and tells which before each: it is all that is known of one in which the core gave up.
void run_seeds(int pipe_end, int mutant, const std::string& checker, uint64_t first_seed, uint64_t seeds) noexcept {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // The text of a QUERN_CHECK is expected here, and would only be in the way.
  if (!std::freopen("/dev/null", "w", stderr)) _exit(1);
  sched::mutant() = mutant;
  const auto tell = [&](const std::string& line) {
    if (write(pipe_end, line.data(), line.size()) < 0) _exit(1);
  };
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    tell("seed " + std::to_string(seed) + "\n");
    const auto result = run_seed(seed, nullptr, checker);
    if (!result.violation || result.violation->checker == "search") continue;
    tell("by " + result.violation->checker + "\n");
    break;
  }
  _exit(0);
}

struct Hunt {
  pid_t child = -1;
  int pipe_end = -1;
};

/// Runs the seeds in a process of its own, with one checker or with all (""), and stops at the first that fails.
Hunt begin_hunt(int mutant, const std::string& checker, uint64_t first_seed, uint64_t seeds) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) run_seeds(ends[1], mutant, checker, first_seed, seeds);
  close(ends[1]);
  return {child, ends[0]};
}

Caught end_hunt(const Hunt& hunt) {
  if (hunt.child < 0) return {"no process", 0};
  std::string told;
  std::array<char, 4096> some;
  for (ssize_t size; (size = read(hunt.pipe_end, some.data(), some.size())) > 0;)
    told.append(some.data(), static_cast<size_t>(size));
  close(hunt.pipe_end);
  int status = 0;
  waitpid(hunt.child, &status, 0);

  Caught caught;
  std::istringstream lines(told);
  for (std::string word, value; lines >> word >> value;) {
    if (word == "seed") caught.seed = std::stoull(value);
    if (word == "by") caught.by = value;
  }
  if (WIFSIGNALED(status)) caught.by = WTERMSIG(status) == SIGABRT ? "check" : "signal";
  if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0) caught.by = "exit";
  return caught;
}

TEST(Mutants, AreEnough) {
  std::map<std::string, int> per_checker;
  int last = 0;
  for (const Mutant& mutant : mutants()) {
    EXPECT_GT(mutant.number, last) << "numbers are given once, in order";
    last = mutant.number;
    ++per_checker[mutant.checker];
    EXPECT_FALSE(mutant.what.empty()) << mutant.number;
  }
  EXPECT_GE(mutants().size(), 60u);
  for (const auto& checker : make_checkers({})) {
    EXPECT_GE(per_checker[std::string(checker->name())], 2) << checker->name();
    per_checker.erase(std::string(checker->name()));
  }
  EXPECT_TRUE(per_checker.empty()) << per_checker.begin()->first << " is no checker";
}

TEST(Mutants, NoneIsClean) {
  const Caught caught = end_hunt(begin_hunt(0, "", 1, 20));
  EXPECT_EQ(caught.by, "") << "seed " << caught.seed;
}

/// Hunts every mutant, each with the checker that `checker_of` names (or all: ""), and calls `caught` in their order.
/// Two hunts are under way at a time, so that the other core has something to do while one takes long.
template <class CheckerOf, class OnCaught>
void hunt_all(CheckerOf&& checker_of, OnCaught&& on_caught) {
  const std::vector<Mutant> all = mutants();
  std::deque<Hunt> under_way;
  for (size_t i = 0; i <= all.size(); ++i) {
    if (i < all.size()) under_way.push_back(begin_hunt(all[i].number, checker_of(all[i]), 1, kMostSeeds));
    if (i > 0) {
      on_caught(all[i - 1], end_hunt(under_way.front()));
      under_way.pop_front();
    }
  }
}

TEST(Mutants, AreCaught) {
  std::printf("%3s  %-9s  %4s  %s\n", "n", "caught by", "seed", "what");
  hunt_all([](const Mutant& mutant) { return mutant.checker; },
           [](const Mutant& mutant, const Caught& caught) {
             EXPECT_NE(caught.by, "") << mutant.number << ": " << mutant.what << ": not caught in " << kMostSeeds
                                      << " seeds";
             std::printf("%3d  %-9s  %4lu  %s\n", mutant.number, caught.by.c_str(),
                         static_cast<unsigned long>(caught.seed), mutant.what.c_str());
             std::fflush(stdout);
           });
}

// With all checkers on, the first that fires may be another one than the mutant's own.
TEST(Mutants, DISABLED_LongFirstOfAllCheckers) {
  std::printf("%3s  %-14s  %s\n", "n", "all, the first", "what");
  hunt_all([](const Mutant&) { return std::string(); },
           [](const Mutant& mutant, const Caught& caught) {
             EXPECT_NE(caught.by, "") << mutant.number << ": " << mutant.what;
             const std::string first = caught.by + " " + std::to_string(caught.seed);
             std::printf("%3d  %-14s  %s\n", mutant.number, first.c_str(), mutant.what.c_str());
             std::fflush(stdout);
           });
}

TEST(Mutants, DISABLED_LongOverAllSeeds) {
  std::printf("%3s  %7s  %s\n", "n", "seeds", "what, and who caught it how often");
  for (const Mutant& mutant : mutants()) {
    std::map<std::string, int> by;
    int seeds = 0;
    for (uint64_t seed = 1; seed <= kTableSeeds; seed += 2) {
      const Hunt one = begin_hunt(mutant.number, "", seed, 1), other = begin_hunt(mutant.number, "", seed + 1, 1);
      for (const Caught& caught : {end_hunt(one), end_hunt(other)})
        if (!caught.by.empty()) ++seeds, ++by[caught.by];
    }
    EXPECT_GT(seeds, 0) << mutant.number << ": " << mutant.what;
    std::printf("%3d  %7d  %s;", mutant.number, seeds, mutant.what.c_str());
    for (const auto& [name, count] : by) std::printf(" %s %d", name.c_str(), count);
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace quern::sim
#endif
