// SPDX-License-Identifier: Apache-2.0
//
// What `bench priority` compares: who is urgent, who is beside it, and who decides between them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.h"

namespace quern::bench {

/// How the daemon decides who launches. `alone`, which all are held against, is no mode: nobody is beside the urgent
/// one.
struct Mode {
  std::string_view name, dispatch;
  bool classes = false;  ///< less urgent work has the device's core only when nobody else wants it

  bool operator==(const Mode&) const = default;
};
constexpr Mode kNone{"none", "none", false}, kIdle{"idle", "none", true}, kFikit{"fikit", "fikit", false},
    kFill{"fill", "fill", false}, kFillClass{"fill_class", "fill", true};

/// Where the gaps of the urgent one come from.
enum class GapSource : uint8_t {
  kProgram,   ///< (a) a bench/launcher pauses between its kernels
  kNear,      ///< (d) the same, its own thread being on the core of the device, too
  kClient,    ///< (b) a client pauses between calls of one kernel each
  kTogether,  ///< (c) the same, and those beside it are in its own executor
  kUntil,     ///< one run looks at a number between its kernels; a gap is as long as that takes
};

/// What the less urgent ones are, each a tenant of its own.
enum class FillerKind : uint8_t {
  kFunction,  ///< called again and again, a call being a graph of kernels
  kCall,      ///< the same, a call being one kernel
  kProgram,   ///< a bench/launcher without gaps
};
/// Of the rows that are stated and summed up; those of the other kind can be asked for by name.
constexpr FillerKind kStatedFiller = FillerKind::kFunction;

/// An urgent task beside less urgent work, under some modes.
struct Contest {
  GapSource source = GapSource::kProgram;
  double kernel_ms = 2.5, gap_ms = 1;
  double jitter = 0;  ///< of the gaps: 0.3 is anything from 0.7 to 1.3 of them
  FillerKind filler = kStatedFiller;
  double filler_ms = 5;  ///< of its kernel
  size_t fillers = 1;
  std::vector<Mode> modes;

  /// The urgent one is a bench/launcher.
  bool is_program() const { return source == GapSource::kProgram || source == GapSource::kNear; }
  /// "a_2.5ms_gap1_filler5x1"
  std::string name() const;
  std::string row_name(const Mode& mode) const { return name() + "_" + std::string(mode.name); }
  /// Of a call of those beside it.
  uint32_t filler_kernels() const;
  /// Its rows of `fill` are summed up in `urgent_…` and `fill_…`.
  bool is_summed_up(double of_gap_ms) const;
};

constexpr uint32_t kTaskKernels = 10;
constexpr size_t kMostFillers = 4;

/// What is hoped for; empty: it is recorded, not judged.
struct Goals {
  std::string ratio, share, p95;
};
Goals goals_of(const Contest& contest, const Mode& mode);

/// The contests that are asked for, each with the modes that are.
std::vector<Contest> contests_of(const Options& options);

}  // namespace quern::bench
