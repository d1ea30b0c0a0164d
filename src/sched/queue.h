// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sched/request.h"

namespace quern::sched {

/// The requests that wait: first come, first served within a group, and groups take turns run by run.
///
/// Devices differ in memory, so "the first that fits this device" must be found without looking at those that do not.
/// Requests are therefore kept by the smallest device size that holds them; there are as many sizes as kinds of
/// device, which is few, and every question below costs sizes x log(requests). It keeps pointers: a request stays
/// where it is in memory while it waits.
class Queue {
 public:
  /// A device of this size exists. Call it before requests that only fit there are added.
  void add_size(uint64_t memory_bytes);

  void add(Request& request);
  void remove(Request& request);
  /// The group got a run: it goes behind all others that wait.
  void took_turn(const Group& group);

  size_t size() const { return size_; }
  size_t size_of(TenantId tenant) const;
  /// First come first.
  std::vector<Request*> of_function(FunctionId function) const;

  /// Whose turn it is among the groups with a request that fits in `memory_bytes`.
  std::optional<Group> first_group(uint64_t memory_bytes) const;
  /// The group that waits for a device of this size, if there is exactly one.
  std::optional<Group> only_group(uint64_t memory_bytes) const;
  /// The first request of a group that fits; null if there is none.
  Request* first_of(const Group& group, uint64_t memory_bytes) const;

 private:
  using Line = std::map<uint64_t, Request*>;  // by arrival
  struct Waiting {
    uint64_t turn = 0;
    std::map<uint64_t, Line> lines;  // by size, none empty
  };

  uint64_t size_class(const Request& request) const;
  void link(Waiting& waiting, uint64_t size, Request& request);
  void unlink(Waiting& waiting, uint64_t size, Request& request);

  std::set<uint64_t> sizes_;
  std::map<Group, Waiting> groups_;                      // none without a request
  std::map<uint64_t, std::map<uint64_t, Group>> turns_;  // size -> turn -> group
  std::map<TenantId, size_t> tenants_;
  std::map<FunctionId, Line> functions_;
  uint64_t next_turn_ = 0;
  size_t size_ = 0;
};

}  // namespace quern::sched
