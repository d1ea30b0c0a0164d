// SPDX-License-Identifier: Apache-2.0
//
// What was published of FIKIT, in the simulator: pairs of programs on a V100, an urgent one and one in no hurry, under
// the device's own sharing, under FIKIT's dispatch and under ours. The kernels of each are public data and not part of
// the project (profiles/orion-v100): QUERN_DATA, or shared/data beside it, has them.
//
// The gaps between kernels are not in that data. Those of the urgent one are swept: from 10 to 60 % of the time of a
// run, in 20 places of it; and, at 30 %, in fewer and more places. The other launches ahead and leaves none. The
// device's own sharing is that of a V100: time slices of 2 ms between contexts. A second column has kernels of both in
// one queue, one after another, as MPS would; there whoever launches has two in flight, so that the other waits for two
// kernels at the most.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "bench/bench.h"
#include "bench/data.h"
#include "bench/profiles.h"
#include "bench/row.h"
#include "bench/uses.h"
#include "os/file.h"
#include "sched/policy/table.h"
#include "sim/world.h"

namespace quern::bench {
namespace {

using Sharing = sim::DeviceModel::Sharing;
using Kernels = std::vector<Duration>;

constexpr std::array kUrgent{"mobilenetv2_4_fwd", "resnet50_4_fwd", "resnet101_4_fwd", "transformer_xl_4_fwd",
                             "bert_2_fwd"};
constexpr std::array kTrained{"mobilenetv2_32_fb1", "mobilenetv2_64_fb1", "mobilenetv2_96_fb1",  "resnet50_32_fb1",
                              "resnet101_32_fb1",   "bert_8_fb1",         "transformer_xl_8_fb1"};
constexpr std::array kShares{0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
constexpr size_t kPlaces = 20, kEach = 0;
constexpr double kShare = 0.3;  // where it is not swept
// From what a launcher says to its grant, and from a launch to the device.
constexpr Duration kGate = Duration::micros(6), kLaunch = Duration::micros(5);
constexpr Duration kTimeSlice = Duration::millis(2);
constexpr Duration kShortestGap = Duration::micros(40);  // that is worth filling, with such grants and launches
// Where the urgent program comes now and then only.
constexpr Duration kNowAndThen = Duration::seconds(1);
// Gaps are known after four of them.
constexpr size_t kLearned = 6;
constexpr double kLeast = 1.32, kMost = 16.41, kHalf = 3.4, kLeastLow = 0.86;

struct Mode {
  std::string_view name, preset;
  Sharing sharing;
  bool has_defaults = false;  ///< of the core, which are for the CPU device here
};
constexpr Mode kSliced{"sharing", "", Sharing::kSlices}, kQueued{"queue", "", Sharing::kQueue};
constexpr Mode kFikit{"fikit", "fikit", Sharing::kSlices}, kFill{"quern", "quern", Sharing::kSlices};
constexpr Mode kDefaults{"quern, defaults", "quern", Sharing::kSlices, true};
constexpr Mode kQueuedFikit{"queue_fikit", "fikit", Sharing::kQueue},
    kQueuedFill{"queue_quern", "quern", Sharing::kQueue};

struct Pair {
  const Kernels* urgent = nullptr;
  const Kernels* low = nullptr;  ///< null: the urgent one is alone
  double share = kShare, low_share = 0;
  size_t places = kPlaces;
  Duration think = {0};
};

struct Outcome {
  double ms = 0;        ///< a run of the urgent one, in the mean
  double low = 0;       ///< of the device's time, that the other had
  double leftover = 0;  ///< of the device's time, that the urgent one left
};

double total_ns(const Kernels& kernels) {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0, [](double a, Duration b) { return a + double(b.ns); });
}

sim::Model model_of(const Pair& pair, const Mode& mode) {
  sim::Model model;
  model.config.policy = *sched::preset(mode.preset.empty() ? "quern" : mode.preset);
  if (mode.preset.empty()) {
    model.config.policy.dispatch = "none";
    if (mode.sharing == Sharing::kQueue) model.config.depth = {1};
  }
  // FIKIT promises nothing to who is in no hurry.
  if (mode.preset == "fikit") model.config.least_share = 0;
  // What takes longer here: a launch, and to begin and stop filling. FIKIT's dispatch does not use them.
  if (!mode.has_defaults) {
    model.config.launch_latency = {0};
    model.config.shortest_gap = kShortestGap;
  }
  sim::DeviceModel device;
  device.name = "v100";
  device.sharing = mode.sharing;
  device.time_slice = kTimeSlice;
  device.launch = kLaunch;
  device.gate = kGate;
  model.devices = {device};
  sim::ProgramModel urgent;
  urgent.name = "urgent";
  urgent.priority = 0;
  urgent.sequence = with_gaps(*pair.urgent, pair.share, pair.places);
  urgent.think = pair.think;
  model.programs = {urgent};
  if (pair.low) {
    sim::ProgramModel low;
    low.name = "low";
    low.priority = 9;
    low.sequence = with_gaps(*pair.low, pair.low_share, pair.places);
    model.programs.push_back(low);
  }
  return model;
}

Outcome simulate(const Pair& pair, const Mode& mode, size_t rounds) {
  sim::Model model = model_of(pair, mode);
  const double alone_ns = total_ns(*pair.urgent) / (1 - pair.share) + static_cast<double>(pair.think.ns);
  // As long as it takes: who shares may need many times as long.
  for (double runs = 1.5 * static_cast<double>(kLearned + rounds);; runs *= 2) {
    model.length = {static_cast<int64_t>(runs * alone_ns)};
    sim::World world(model, 1);
    Uses uses(Time{0});
    world.observe(uses);
    const auto done = world.run().rounds.at(0);
    if (done.size() < kLearned + rounds) continue;
    Outcome outcome;
    for (size_t i = kLearned; i < done.size(); ++i) outcome.ms += double((done[i].ended - done[i].began).ns) / 1e6;
    outcome.ms /= static_cast<double>(done.size() - kLearned);
    const std::vector<double> used = uses.ns();
    const auto length = static_cast<double>(model.length.ns);
    outcome.leftover = 1 - used.at(0) / length;
    outcome.low = used.size() > 1 ? used[1] / length : 0;
    return outcome;
  }
}

struct Figures {
  std::vector<double> fikit, fill;            ///< by pair: sharing against it, of the urgent one's runs
  std::vector<double> sharing, alike, ours;   ///< against alone: sharing, fikit, quern
  std::vector<double> fikit_fill, ours_fill;  ///< of what the urgent one left, what the other had
  std::vector<double> fikit_low, ours_low;    ///< of what the other had under sharing, what it has
};

double least(const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); }
double most(const std::vector<double>& all) { return *std::max_element(all.begin(), all.end()); }
double median(const std::vector<double>& all) { return middle_of(all).median; }

class Fikit {
 public:
  Fikit(const Options& options, Report& report) : options_(options), report_(report) {}

  Status run() {
    QUERN_TRY(read_all());
    Figures all, queued;
    if (options_.wants("urgent")) add_shares(all, queued);
    if (options_.wants("places")) add_places();
    if (options_.wants("other")) add_others();
    if (options_.wants("low")) add_low();
    if (!all.fikit.empty()) add_headlines(all, queued);
    return {};
  }

 private:
  Status read_all() {
    std::vector<std::string> names(kUrgent.begin(), kUrgent.end());
    names.insert(names.end(), kTrained.begin(), kTrained.end());
    for (const std::string& name : names) {
      QUERN_TRY(const std::string path, find_data(fmt::format("profiles/orion-v100/{}.csv", name)));
      QUERN_TRY(const Bytes bytes, os::read_file(path, 1 << 22));
      QUERN_TRY(kernels_[name], parse_orion(name, as_text(bytes)));
    }
    for (const std::string urgent : kUrgent)
      for (const std::string& low : names)
        if (low != urgent && (!options_.quick || low.ends_with("fwd"))) pairs_.emplace_back(urgent, low);
    return {};
  }

  size_t rounds() const { return options_.quick ? 3 : 12; }

  /// All pairs; under sharing, FIKIT and ours as given.
  Figures compare(double share, size_t places, Duration think, const std::array<Mode, 3>& modes,
                  bool both_pause = false) {
    std::map<std::string, Outcome> alone;
    for (const std::string urgent : kUrgent)
      alone[urgent] = simulate({&kernels_.at(urgent), nullptr, share, 0, places, think}, modes[0], rounds());
    Figures figures;
    for (const auto& [urgent, low] : pairs_) {
      options_.progress(fmt::format("fikit: {} beside {}, {:.0f} % of gaps in {} places, {}", urgent, low, 100 * share,
                                    places == kEach ? "all" : std::to_string(places), modes[0].name));
      const Pair pair{&kernels_.at(urgent), &kernels_.at(low), share, both_pause ? share : 0, places, think};
      const Outcome sharing = simulate(pair, modes[0], rounds());
      const Outcome fikit = simulate(pair, modes[1], rounds()), ours = simulate(pair, modes[2], rounds());
      const double ms = alone.at(urgent).ms;
      figures.fikit.push_back(sharing.ms / fikit.ms);
      figures.fill.push_back(sharing.ms / ours.ms);
      figures.sharing.push_back(sharing.ms / ms);
      figures.alike.push_back(fikit.ms / ms);
      figures.ours.push_back(ours.ms / ms);
      figures.fikit_fill.push_back(fikit.low / fikit.leftover);
      figures.ours_fill.push_back(ours.low / ours.leftover);
      figures.fikit_low.push_back(fikit.low / sharing.low);
      figures.ours_low.push_back(ours.low / sharing.low);
    }
    return figures;
  }

  static std::string range(const std::vector<double>& all) {
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", median(all), least(all), most(all));
  }

  void head(std::string_view first) {
    report_.notes.push_back(fmt::format(
        "| {} | sharing, against alone | fikit, against alone | quern, against alone | sharing against fikit | sharing "
        "against quern | fikit, of the leftover | quern, of the leftover |",
        first));
    report_.notes.push_back("|---|---|---|---|---|---|---|---|");
  }
  void line(const std::string& first, const Figures& one) {
    report_.notes.push_back(fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |", first, range(one.sharing),
                                        range(one.alike), range(one.ours), range(one.fikit), range(one.fill),
                                        range(one.fikit_fill), range(one.ours_fill)));
  }

  static void join(Figures& all, const Figures& one) {
    for (const auto member : {&Figures::fikit, &Figures::fill, &Figures::sharing, &Figures::alike, &Figures::ours,
                              &Figures::fikit_fill, &Figures::ours_fill, &Figures::fikit_low, &Figures::ours_low})
      (all.*member).insert((all.*member).end(), (one.*member).begin(), (one.*member).end());
  }

  void add_shares(Figures& all, Figures& queued) {
    report_.notes.push_back(
        fmt::format("median (least to most) of {} pairs, gaps in {} places of a run", pairs_.size(), kPlaces));
    for (const bool is_queue : {false, true}) {
      const std::array<Mode, 3> modes =
          is_queue ? std::array{kQueued, kQueuedFikit, kQueuedFill} : std::array{kSliced, kFikit, kFill};
      head(is_queue ? "gaps, one queue" : "gaps, time slices");
      for (const double share : kShares) {
        if (options_.quick && share != kShare) continue;
        const Figures one = compare(share, kPlaces, {0}, modes);
        line(fmt::format("{:.0f} %", 100 * share), one);
        join(is_queue ? queued : all, one);
      }
    }
  }

  void add_places() {
    report_.notes.push_back(fmt::format("the same with {:.0f} % of gaps, time slices, by places", 100 * kShare));
    head("places");
    for (const size_t places : {size_t{4}, size_t{64}, kEach}) {
      const Figures one = compare(kShare, places, {0}, {kSliced, kFikit, kFill});
      const std::string name = places == kEach ? "each" : std::to_string(places);
      line(places == kEach ? "after each kernel" : name, one);
      report_.rows.push_back(row_of(fmt::format("places_{}_fikit", name), median(one.fikit), "x sharing"));
      report_.rows.push_back(row_of(fmt::format("places_{}_quern", name), median(one.fill), "x sharing"));
      report_.rows.push_back(row_of(fmt::format("places_{}_quern_alone", name), most(one.ours), "x alone"));
    }
  }

  // What was assumed, assumed otherwise: all shares of gaps together.
  void add_others() {
    struct Other {
      std::string_view name, text;
      size_t places;
      bool both_pause;
      Mode ours;
    };
    const std::array<Other, 4> others{
        {{"defaults", "the core's defaults", kPlaces, false, kDefaults},
         {"both", "both have gaps", kPlaces, true, kFill},
         {"both_defaults", "both have gaps, the core's defaults", kPlaces, true, kDefaults},
         {"16", "16 places", 16, false, kFill}}};
    report_.notes.push_back("assumed otherwise, all shares of gaps together, time slices");
    head("otherwise");
    for (const Other& other : others) {
      Figures all;
      for (const double share : kShares)
        if (!options_.quick || share == kShare)
          join(all, compare(share, other.places, {0}, {kSliced, kFikit, other.ours}, other.both_pause));
      line(std::string(other.text), all);
      const auto row = [&](std::string_view name, double value, std::string unit, std::string goal) {
        report_.rows.push_back(
            row_of(fmt::format("other_{}_{}", other.name, name), value, std::move(unit), std::move(goal)));
      };
      row("fikit_half", median(all.fikit), "x sharing", "");
      row("quern_half", median(all.fill), "x sharing", "");
      row("quern_alone", median(all.ours), "x alone", "<= 1.02");
      row("quern_alone_worst", most(all.ours), "x alone", "<= 1.05");
      row("quern_fill", median(all.ours_fill), "of the leftover", ">= 0.88");
    }
  }

  // What the less urgent one gets done where the urgent one comes now and then.
  void add_low() {
    const Figures one = compare(kShare, kPlaces, kNowAndThen, {kSliced, kFikit, kFill});
    report_.notes.push_back(
        fmt::format("a run of the urgent one a second after the last: the other gets done, against sharing, {} under "
                    "fikit and {} under quern; the urgent one is {} and {} times as fast",
                    range(one.fikit_low), range(one.ours_low), range(one.fikit), range(one.fill)));
    report_.rows.push_back(row_of("low_fikit_least", least(one.fikit_low), "x sharing", kLeastLow, ">= 1"));
    report_.rows.push_back(row_of("low_quern_least", least(one.ours_low), "x sharing", kLeastLow, ">= 1"));
    report_.rows.push_back(row_of("low_fikit", median(one.fikit_low), "x sharing"));
    report_.rows.push_back(row_of("low_quern", median(one.ours_low), "x sharing"));
    report_.rows.push_back(row_of("low_urgent_quern", most(one.ours), "x alone"));
  }

  void add_headlines(const Figures& all, const Figures& queued) {
    const auto row = [&](std::string name, double value, std::string unit, double published, std::string goal) {
      report_.rows.push_back(row_of(std::move(name), value, std::move(unit), published, std::move(goal)));
    };
    row("urgent_fikit_least", least(all.fikit), "x sharing", kLeast, "");
    row("urgent_fikit_half", median(all.fikit), "x sharing", kHalf, ">= 0.8");
    row("urgent_fikit_most", most(all.fikit), "x sharing", kMost, "");
    row("urgent_quern_least", least(all.fill), "x sharing", kLeast, "");
    row("urgent_quern_half", median(all.fill), "x sharing", kHalf, ">= 1");
    row("urgent_quern_most", most(all.fill), "x sharing", kMost, "");
    // Passed: by every pair, so the worst of them counts.
    std::vector<double> passed, kept;
    for (size_t i = 0; i < all.fill.size(); ++i) passed.push_back(all.fill[i] / all.fikit[i]);
    for (size_t i = 0; i < all.fill.size(); ++i) kept.push_back(all.ours_low[i] / all.fikit_low[i]);
    report_.rows.push_back(row_of("urgent_passed_worst", least(passed), "x fikit", ">= 1"));
    report_.rows.push_back(row_of("urgent_passed", median(passed), "x fikit", ">= 1"));
    report_.rows.push_back(row_of("urgent_low_passed", median(kept), "x fikit", ">= 1"));
    report_.rows.push_back(row_of("urgent_fikit_alone", median(all.alike), "x alone"));
    report_.rows.push_back(row_of("urgent_quern_alone", median(all.ours), "x alone", "<= 1.02"));
    report_.rows.push_back(row_of("urgent_quern_alone_worst", most(all.ours), "x alone", "<= 1.05"));
    report_.rows.push_back(row_of("urgent_fikit_fill", median(all.fikit_fill), "of the leftover"));
    report_.rows.push_back(row_of("urgent_quern_fill", median(all.ours_fill), "of the leftover", ">= 0.88"));
    report_.rows.push_back(row_of("urgent_queue_fikit", median(queued.fikit), "x queue"));
    report_.rows.push_back(row_of("urgent_queue_quern", median(queued.fill), "x queue"));
    report_.rows.push_back(row_of("urgent_queue_quern_alone_worst", most(queued.ours), "x alone"));
  }

  const Options& options_;
  Report& report_;
  std::map<std::string, Kernels> kernels_;
  std::vector<std::pair<std::string, std::string>> pairs_;
};

}  // namespace

Status run_fikit(const Options& options, Report& report) {
  report.layout = fmt::format(
      "simulated: a V100, time slices of {} between contexts (queue: kernels of both in one), launches of {}, grants "
      "after {}",
      to_string(kTimeSlice), to_string(kLaunch), to_string(kGate));
  return Fikit(options, report).run();
}

}  // namespace quern::bench
