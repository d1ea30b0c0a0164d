// SPDX-License-Identifier: Apache-2.0
#include "bench/priority_filler.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quern::bench {
namespace {

// Kernels are executed one after the other, and the groups of each in order: a mark says how many did it.
uint64_t marked(std::span<std::byte> marks) {
  const size_t groups = marks.size() / sizeof(uint32_t);
  if (groups == 0) return 0;
  const auto mark_of = [&](size_t i) {
    return std::atomic_ref(reinterpret_cast<uint32_t*>(marks.data())[i]).load(std::memory_order_relaxed);
  };
  const uint32_t kernels = mark_of(0);  // the last of them may have others to do
  if (kernels == 0) return 0;
  const auto is_done = [&](size_t i) { return mark_of(i) >= kernels; };
  size_t done = 1, past = groups;
  while (done < past) {
    const size_t middle = done + (past - done) / 2;
    if (is_done(middle))
      done = middle + 1;
    else
      past = middle;
  }
  return uint64_t{kernels - 1} * groups + done;
}

// The way there and back takes some 0.2 ms, during which the others keep the device busy; more would only wait.
size_t places_for(double call_ms) {
  return std::clamp<size_t>(static_cast<size_t>(1 + std::ceil(0.6 / call_ms)), 2, 4);
}

}  // namespace

FunctionFiller::FunctionFiller(PrioritySite& site, PrioritySite::Work work, uint32_t groups, double call_ms,
                               size_t most)
    : site_(site), work_(std::move(work)), groups_(groups) {
  state_.with([&](State& state) { state.marks.resize(std::min(places_for(call_ms), most)); });
  thread_ = os::Thread("bench-filler", [this] { call_again_and_again(); });
}

FunctionFiller::~FunctionFiller() { is_over_.store(true); }

Status FunctionFiller::submit(size_t place) {
  QUERN_TRY(auto call, site_.prepare(work_));
  state_.with([&](State& state) { state.marks[place] = call->outputs[0].bytes; });
  site_.submit(std::move(call), [this, place](std::unique_ptr<daemon::Call> back) {
    state_.with([&](State& state) {
      if (!back->error) state.ended_groups += groups_;
      state.marks[place] = {};  // its memory goes with the call
      state.ended.push_back({place, std::move(back)});
    });
    ended_.release();
  });
  return {};
}

void FunctionFiller::call_again_and_again() {
  size_t under_way = 0;
  const auto again = [&](size_t place) {
    if (is_over_.load()) return;
    if (Status taken = submit(place); taken.ok())
      ++under_way;
    else
      state_.with([&](State& state) { state.status = std::move(taken); });
  };
  const size_t places = state_.with([](const State& state) { return state.marks.size(); });
  for (size_t place = 0; place < places; ++place) again(place);
  while (under_way > 0) {
    ended_.acquire();
    Ended one = state_.with([](State& state) {
      Ended first = std::move(state.ended.front());
      state.ended.erase(state.ended.begin());
      return first;
    });
    --under_way;
    if (one.call->error) {
      is_over_.store(true);
      state_.with([&](State& state) { state.status = *one.call->error; });
    }
    one.call.reset();
    again(one.place);
  }
}

Status FunctionFiller::end() {
  is_over_.store(true);
  thread_.join();
  return state_.with([](State& state) { return std::exchange(state.status, {}); });
}

uint64_t FunctionFiller::groups_done() {
  return state_.with([](State& state) {
    uint64_t groups = state.ended_groups;
    for (const auto& marks : state.marks) groups += marked(marks);
    return groups;
  });
}

Result<std::unique_ptr<Filler>> ProgramFiller::begin(Launcher& launcher, uint32_t gate, uint32_t groups) {
  QUERN_TRY(launcher.begin(gate, groups));
  return std::unique_ptr<Filler>(new ProgramFiller(launcher));
}

}  // namespace quern::bench
