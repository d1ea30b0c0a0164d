// SPDX-License-Identifier: Apache-2.0
//
// Kernels in plain OpenCL C, called as any function is, against libraries that were made for this machine: the device
// time that is accounted, and the CPU time of a library's call on the same core.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include "bench/bench.h"
#include "bench/libraries.h"
#include "bench/pairs.h"
#include "bench/ring.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::bench {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kN = 1024, kPanel = 16;                                // of sgemm_packed
constexpr int64_t kChannels = 64, kSide = 56, kBlock = 16, kWindow = 3;  // of conv3x3
constexpr int64_t kBlocks = kChannels / kBlock, kBordered = kSide + 2;

size_t pairs_of(const Options& options) { return options.quick ? 10 : 200; }

/// Values from -0.5 to 0.5, the same on every machine.
Floats make_values(int64_t count, uint32_t seed) {
  Floats values(static_cast<size_t>(count));
  uint32_t state = seed;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5f;
  }
  return values;
}

std::span<const std::byte> bytes_of(const Floats& values) { return std::as_bytes(std::span(values)); }

/// kInternal if two results differ by more than sums of some hundred products may.
Status compare(std::string_view name, std::span<const float> ours, std::span<const float> theirs) {
  constexpr float kTolerance = 1e-4f;
  if (ours.size() != theirs.size())
    return internal(fmt::format("{}: {} values, not {}", name, ours.size(), theirs.size()));
  for (size_t i = 0; i < ours.size(); ++i)
    if (!(std::abs(ours[i] - theirs[i]) <= kTolerance * (1 + std::abs(theirs[i]))))
      return internal(fmt::format("{}: element {} is {}, but the library has {}", name, i, ours[i], theirs[i]));
  return {};
}

/// CPU microseconds of `work` on a core, by the calling thread.
Result<double> time_on(int core, int home, const std::function<Status()>& work) {
  const std::array there{core}, back{home};
  QUERN_TRY(os::pin_to(there));
  const int thread = os::thread_id();
  const Duration before = os::cpu_time_of_thread(thread);
  Status ended = work();
  const Duration after = os::cpu_time_of_thread(thread);
  QUERN_TRY(os::pin_to(back));
  QUERN_TRY(std::move(ended));
  return static_cast<double>((after - before).ns) / 1e3;
}

/// A kernel of ours and the call of a library that does the same.
struct Contest {
  std::string name, folder, goal;
  double flops = 0;
  CallSpec spec;
  std::vector<Floats> inputs;                            ///< in the order of `spec`
  std::function<Floats(std::span<const float>)> unpack;  ///< our output as the library has it
  std::function<Status()> theirs;                        ///< empty: the library is not there
  std::function<Result<Floats>()> their_output;
  std::string note;  ///< which code the library uses, or why it is not there
};

Status run_contest(const Options& options, const Layout& layout, Ring& ring, const Contest& contest, Report& report) {
  options.progress(contest.name + ": deploy");
  QUERN_TRY(auto functions, functions_folder());
  QUERN_TRY(const auto function, ring.deploy(functions + "/" + contest.folder));
  std::vector<std::span<const std::byte>> inputs;
  for (const Floats& input : contest.inputs) inputs.push_back(bytes_of(input));
  const auto call = [&](Floats* output) -> Result<double> {
    QUERN_TRY(const auto ended, ring.call(function, contest.spec, inputs));
    if (output) {
      const auto bytes = ended.call->outputs.at(0).bytes;
      output->resize(bytes.size() / sizeof(float));
      std::memcpy(output->data(), bytes.data(), bytes.size());
    }
    return static_cast<double>(ended.call->times.device_time_ns) / 1e3;
  };
  const auto ours = twice([&] { return call(nullptr); });
  const size_t count = pairs_of(options);
  const auto speed = [&](double micros) { return contest.flops / micros / 1e3; };
  if (!contest.theirs) {
    std::vector<double> micros;
    for (size_t i = 0; i < count; ++i) {
      QUERN_TRY(const auto both, ours());
      micros.push_back(both[1]);
    }
    Row row;
    row.name = contest.name;
    row.value = middle_of(micros).median;
    row.unit = "us";
    row.ratio = std::numeric_limits<double>::quiet_NaN();  // meets no goal
    row.goal = contest.goal;
    report.notes.push_back(fmt::format("{}: {:.1f} GFLOP/s; nothing to hold it against: {}", contest.name,
                                       speed(row.value), contest.note));
    report.rows.push_back(std::move(row));
    return {};
  }
  const auto theirs = twice([&] { return time_on(layout.device, layout.host, contest.theirs); });
  Floats output;
  QUERN_TRY(call(&output));
  QUERN_TRY(theirs());
  QUERN_TRY(const Floats expected, contest.their_output());
  QUERN_TRY(compare(contest.name, contest.unpack(output), expected));
  QUERN_TRY(const auto pairs, interleave(options, contest.name, count, ours, theirs));
  Row row = pairs.after_call.row(contest.name, "us", contest.goal);
  row.ratio = row.value / *row.baseline;
  report.notes.push_back(fmt::format("{}: {:.1f} GFLOP/s against {:.1f} by {}", contest.name, speed(row.value),
                                     speed(*row.baseline), contest.note));
  report.rows.push_back(std::move(row));
  return {};
}

// A multiplied by B, whose columns come in panels: function.yaml tells how.
Contest multiplication() {
  Contest contest;
  contest.name = "sgemm_1024";
  contest.folder = "sgemm_packed";
  contest.goal = "<= 1.15";
  contest.flops = 2.0 * kN * kN * kN;
  auto a = std::make_shared<Floats>(make_values(kN * kN, 1)), b = std::make_shared<Floats>(make_values(kN * kN, 2));
  auto c = std::make_shared<Floats>(kN * kN);
  Floats packed(b->size());
  for (int64_t row = 0; row < kN; ++row)
    for (int64_t column = 0; column < kN; ++column)
      packed[static_cast<size_t>((column / kPanel * kN + row) * kPanel + column % kPanel)] =
          (*b)[static_cast<size_t>(row * kN + column)];
  contest.spec.inputs.push_back({"a", Dtype::kFp32, {kN, kN}});
  contest.spec.inputs.push_back({"b", Dtype::kFp32, {kN / kPanel, kN, kPanel}});
  contest.inputs = {*a, std::move(packed)};
  contest.unpack = [](std::span<const float> output) { return Floats(output.begin(), output.end()); };
  const auto library = OpenBlas::open();
  if (!library.ok()) {
    contest.note = library.error().text;
    return contest;
  }
  contest.note = "OpenBLAS " + library->core();
  contest.theirs = [=, blas = *library]() -> Status {
    blas.multiply(kN, a->data(), b->data(), c->data());
    return {};
  };
  contest.their_output = [=]() -> Result<Floats> { return *c; };
  return contest;
}

Floats pack_image(const Floats& x) {
  Floats packed(kBlocks * kBordered * kBordered * kBlock);
  for (int64_t c = 0; c < kChannels; ++c)
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j)
        packed[static_cast<size_t>(((c / kBlock * kBordered + i + 1) * kBordered + j + 1) * kBlock + c % kBlock)] =
            x[static_cast<size_t>((c * kSide + i) * kSide + j)];
  return packed;
}

Floats unpack_image(std::span<const float> packed) {
  Floats x(kChannels * kSide * kSide);
  for (int64_t c = 0; c < kChannels; ++c)
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j)
        x[static_cast<size_t>((c * kSide + i) * kSide + j)] =
            packed[static_cast<size_t>(((c / kBlock * kBordered + i + 1) * kBordered + j + 1) * kBlock + c % kBlock)];
  return x;
}

Floats pack_weights(const Floats& weights) {
  Floats packed(weights.size());
  size_t from = 0;
  for (int64_t out = 0; out < kChannels; ++out)
    for (int64_t in = 0; in < kChannels; ++in)
      for (int64_t at = 0; at < kWindow * kWindow; ++at) {
        const int64_t block = (out / kBlock * kBlocks + in / kBlock) * kWindow * kWindow + at;
        packed[static_cast<size_t>((block * kBlock + in % kBlock) * kBlock + out % kBlock)] = weights[from++];
      }
  return packed;
}

Contest convolution() {
  Contest contest;
  contest.name = "conv3x3_64";
  contest.folder = "conv3x3";
  contest.goal = "<= 1.25";
  contest.flops = 2.0 * kSide * kSide * kChannels * kChannels * kWindow * kWindow;
  const Floats x = make_values(kChannels * kSide * kSide, 3), bias = make_values(kChannels, 5);
  const Floats weights = make_values(kChannels * kChannels * kWindow * kWindow, 4);
  contest.spec.inputs.push_back({"x", Dtype::kFp32, {kBlocks, kBordered, kBordered, kBlock}});
  contest.spec.inputs.push_back({"weights", Dtype::kFp32, {kBlocks, kBlocks, kWindow, kWindow, kBlock, kBlock}});
  contest.spec.inputs.push_back({"bias", Dtype::kFp32, {kChannels}});
  contest.inputs = {pack_image(x), pack_weights(weights), bias};
  contest.unpack = unpack_image;
  auto created = OneDnnConvolution::create({kChannels, kSide, kSide, kWindow}, x, weights, bias);
  if (!created.ok()) {
    contest.note = created.error().text;
    return contest;
  }
  const std::shared_ptr<OneDnnConvolution> library = std::move(created).value();
  contest.note = "oneDNN " + library->implementation();
  contest.theirs = [=] { return library->run(); };
  contest.their_output = [=] { return library->output(); };
  return contest;
}

}  // namespace

Status run_kernels(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  report.layout = layout.text + "; the libraries on the device's core, one thread";
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  prepare_libraries();  // first: it sets variables
  const std::array contests{multiplication(), convolution()};
  QUERN_TRY(const auto folder, Folder::create());
  options.progress("daemon: start");
  os::start_log(os::Level::kWarning);
  QUERN_TRY(auto ring, Ring::create(layout, folder.path()));
  for (const Contest& contest : contests) QUERN_TRY(run_contest(options, layout, *ring, contest, report));
  report.notes.push_back(
      "Ours: device time as accounted, weights packed beforehand. Theirs: CPU time of the call. Both without their "
      "first call after idling.");
  return {};
}

}  // namespace quern::bench
