// SPDX-License-Identifier: Apache-2.0
#include "launcher/permit.h"

#include <gtest/gtest.h>

namespace quern::launcher {
namespace {

using Why = Permit::Why;

constexpr int64_t kMicro = 1000;

ipc::Grant open_grant() { return {.open = true, .depth_ns = 400 * kMicro, .depth = 256, .slice_ns = 200 * kMicro}; }

// A thousand groups of 5 us.
Ask long_kernel() {
  return {.parts = 1000, .part_ns = 5 * kMicro, .sliceable = true, .in_flight = 0, .in_flight_ns = 0};
}

TEST(Permit, NothingThroughAClosedGate) {
  ipc::Grant grant = open_grant();
  grant.open = false;
  const Permit none = permit(grant, long_kernel(), 0);
  EXPECT_EQ(none.parts, 0u);
  EXPECT_EQ(none.why, Why::kClosed);
}

TEST(Permit, NothingBeforeItsTime) {
  ipc::Grant grant = open_grant();
  grant.from_ns = 100;
  EXPECT_EQ(permit(grant, long_kernel(), 99).why, Why::kEarly);
  EXPECT_EQ(permit(grant, long_kernel(), 100).why, Why::kGo);
}

TEST(Permit, ALongKernelGoesInSlices) {
  EXPECT_EQ(permit(open_grant(), long_kernel(), 0).parts, 40u);  // 200 us
  Ask ask = long_kernel();
  ask.sliceable = false;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, 1000u) << "whole, if it cannot be cut";
  ipc::Grant grant = open_grant();
  grant.slice_ns = 0;
  EXPECT_EQ(permit(grant, long_kernel(), 0).parts, 1000u) << "whole, if it is not to be cut";
  ask = long_kernel();
  ask.parts = 80;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, 80u) << "two slices are one launch";
}

TEST(Permit, NoCrumbsAreLeftOver) {
  Ask ask = long_kernel();
  ask.parts = 90;
  // Not 40, 40 and 10.
  const uint64_t first = permit(open_grant(), ask, 0).parts;
  ask.parts -= first;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, ask.parts);
}

TEST(Permit, NoMoreInFlightThanTheDepth) {
  Ask ask = long_kernel();
  ask.in_flight = 2;
  ask.in_flight_ns = 400 * kMicro;
  EXPECT_EQ(permit(open_grant(), ask, 0).why, Why::kDepth);
  ask.in_flight_ns = 399 * kMicro;
  EXPECT_EQ(permit(open_grant(), ask, 0).why, Why::kGo);
  ask.in_flight = 256;
  ask.in_flight_ns = 0;
  EXPECT_EQ(permit(open_grant(), ask, 0).why, Why::kDepth) << "nor more launches";
  ask.in_flight = 1;
  ask.in_flight_ns = 400 * kMicro;
  EXPECT_EQ(permit(open_grant(), ask, 0).why, Why::kGo) << "the next is always enqueued while one runs";
}

TEST(Permit, WhatIsLaunchedEndsByUntil) {
  ipc::Grant grant = open_grant();
  grant.until_ns = 1000 * kMicro;
  EXPECT_EQ(permit(grant, long_kernel(), 0).parts, 40u);
  EXPECT_EQ(permit(grant, long_kernel(), 900 * kMicro).parts, 20u) << "the last slice is cut to what is left";
  Ask ask = long_kernel();
  ask.in_flight = 1;
  ask.in_flight_ns = 50 * kMicro;
  EXPECT_EQ(permit(grant, ask, 900 * kMicro).parts, 10u) << "what is in flight comes first";
  EXPECT_EQ(permit(grant, long_kernel(), 990 * kMicro).why, Why::kOver) << "too little to begin";
  EXPECT_EQ(permit(grant, long_kernel(), 2000 * kMicro).why, Why::kOver);
  ask = long_kernel();
  ask.sliceable = false;
  EXPECT_EQ(permit(grant, ask, 0).why, Why::kOver) << "what cannot be cut does not fit";
  ask.parts = 190;
  EXPECT_EQ(permit(grant, ask, 0).parts, 190u) << "or fits whole";
}

TEST(Permit, BeyondUntilInSmallSlices) {
  ipc::Grant grant = open_grant();
  grant.until_ns = 1000 * kMicro;
  grant.beyond_ns = 50 * kMicro;
  EXPECT_EQ(permit(grant, long_kernel(), 1500 * kMicro).parts, 10u);
  Ask ask = long_kernel();
  ask.sliceable = false;
  EXPECT_EQ(permit(grant, ask, 1500 * kMicro).why, Why::kOver);
}

TEST(Permit, WhoGoesOnAfterTheEndStopsNowhereBeforeIt) {
  ipc::Grant grant = open_grant();
  grant.until_ns = 1000 * kMicro;
  Ask ask = long_kernel();
  ask.part_ns = 60 * kMicro;
  EXPECT_EQ(permit(grant, ask, 950 * kMicro).why, Why::kOver) << "not even one part ends by then";
  grant.beyond_ns = 120 * kMicro;
  for (int64_t now = 900; now < 1100; now += 5) {
    const Permit next = permit(grant, ask, now * kMicro);
    EXPECT_EQ(next.why, Why::kGo) << now;
    EXPECT_EQ(next.parts, now <= 940 ? 1u : 2u) << now;
  }
  ask.in_flight = 2;
  ask.in_flight_ns = 120 * kMicro;
  EXPECT_EQ(permit(grant, ask, 950 * kMicro).why, Why::kDepth);
}

TEST(Permit, SlicesComeNearToWhatIsWanted) {
  Ask ask = long_kernel();
  ask.part_ns = 110 * kMicro;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, 2u) << "220 us rather than 110";
  ask.part_ns = 150 * kMicro;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, 1u) << "150 us rather than 300";
}

TEST(Permit, AKernelNeverSeenShowsItselfInASmallPart) {
  Ask ask = long_kernel();
  ask.part_ns = 0;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, 31u);
  ask.sliceable = false;
  EXPECT_EQ(permit(open_grant(), ask, 0).parts, 1000u);
  ipc::Grant grant = open_grant();
  grant.until_ns = 1000 * kMicro;
  EXPECT_EQ(permit(grant, ask, 0).why, Why::kOver) << "but not into a gap";
}

TEST(Gate, AGrantIsReadWholeOrNotAtAll) {
  ipc::Gate gate;
  uint64_t epoch = 0;
  EXPECT_FALSE(ipc::read_grant(gate).open);
  const ipc::Grant grant{.open = true,
                         .tells = true,
                         .from_ns = 1,
                         .until_ns = 2,
                         .depth_ns = 3,
                         .depth = 4,
                         .slice_ns = 5,
                         .beyond_ns = 6};
  ipc::write_grant(gate, epoch, grant);
  EXPECT_EQ(ipc::read_grant(gate), grant);
  gate.word = gate.word & ~uint64_t{1};  // as it is while the next one is written
  EXPECT_FALSE(ipc::read_grant(gate).open);
  ipc::write_grant(gate, epoch, {.open = false, .tells = true});
  EXPECT_TRUE(ipc::read_grant(gate).tells);
  EXPECT_EQ(epoch, 2u);
}

}  // namespace
}  // namespace quern::launcher
