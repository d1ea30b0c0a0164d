// SPDX-License-Identifier: Apache-2.0
#include "sched/keeps.h"

#include <algorithm>

#include "sched/mutant.h"

namespace quern::sched {
namespace {

constexpr Stage kStages[] = {Stage::kContext, Stage::kHost, Stage::kHot};

}  // namespace

Stage Keeps::Kept::highest(Time now) const {
  Stage highest = Stage::kNothing;
  for (const Stage stage : kStages)
    if (at(stage) > now) highest = stage;
  return highest;
}

const Keeps::Kept* Keeps::find(FunctionId function) const {
  const auto found = kept_.find(function);
  return found == kept_.end() ? nullptr : &found->second;
}

void Keeps::set(const Keep& keep) {
  if (keep.until == Time::never() || keep.stage == Stage::kNothing || QUERN_MUTANT(61)) erase(keep.function);
  if (keep.stage == Stage::kNothing) return;
  const auto [entry, fresh] = kept_.try_emplace(keep.function);
  Kept& kept = entry->second;
  // What a function needs never changes: ids are of versions.
  if (fresh) kept = {keep.function, keep.domain, keep.objects, {}};
  for (const Stage stage : kStages)
    if (stage <= keep.stage) change(kept, stage, std::max(kept.at(stage), keep.until));
}

void Keeps::erase(FunctionId function) {
  const auto entry = kept_.find(function);
  if (entry == kept_.end()) return;
  for (const Stage stage : kStages) change(entry->second, stage, {0});
  kept_.erase(entry);
}

std::optional<Keeps::Kept> Keeps::lapse(Time now) {
  if (next_end() > now) return std::nullopt;
  Kept& kept = kept_.at(std::get<FunctionId>(*ends_.begin()));
  for (const Stage stage : kStages)
    if (kept.at(stage) <= now) change(kept, stage, {0});
  Kept copy = kept;
  if (copy.until == std::array<Time, 4>{}) kept_.erase(copy.function);
  return copy;
}

Time Keeps::longest(const What& what) const {
  const auto found = by_what_.find(what);
  return found == by_what_.end() ? Time{0} : found->second.rbegin()->first;
}

void Keeps::change(Kept& kept, Stage stage, Time until) {
  Time& was = kept.until[static_cast<size_t>(stage)];
  const auto move = [&](const What& what) {
    auto& all = by_what_[what];
    all.erase({was, kept.function});
    if (until > Time{0}) all.insert({until, kept.function});
    if (all.empty()) by_what_.erase(what);
  };
  if (was == until) return;
  if (stage == Stage::kContext) move({stage, kept.domain, {0}});
  if (stage == Stage::kHost)
    for (const ObjectNeed& need : kept.objects) move({stage, {0}, need.object});
  if (stage == Stage::kHot)
    for (const ObjectNeed& need : kept.objects) move({stage, kept.domain, need.object});
  ends_.erase({was, kept.function, stage});
  if (until > Time{0} && until != Time::never()) ends_.insert({until, kept.function, stage});
  was = until;
}

}  // namespace quern::sched
