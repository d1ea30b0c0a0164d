// SPDX-License-Identifier: Apache-2.0
#include "sched/queue.h"

#include <limits>

namespace quern::sched {

uint64_t Queue::size_class(const Request& request) const {
  const auto size = sizes_.lower_bound(request.submit.memory_bytes);
  return size == sizes_.end() ? std::numeric_limits<uint64_t>::max() : *size;
}

void Queue::link(Waiting& waiting, uint64_t size, Request& request) {
  waiting.lines[size].emplace(request.arrival, &request);
  turns_[size].emplace(waiting.turn, request.group);
}

void Queue::unlink(Waiting& waiting, uint64_t size, Request& request) {
  const auto line = waiting.lines.find(size);
  line->second.erase(request.arrival);
  if (!line->second.empty()) return;
  waiting.lines.erase(line);
  const auto turns = turns_.find(size);
  turns->second.erase(waiting.turn);
  if (turns->second.empty()) turns_.erase(turns);
}

void Queue::add_size(uint64_t memory_bytes) {
  // Those of the next larger size that fit the new one move to it. This looks at every one of them, but a new kind of
  // device is rare.
  const auto above = sizes_.upper_bound(memory_bytes);
  const uint64_t from = above == sizes_.end() ? std::numeric_limits<uint64_t>::max() : *above;
  if (!sizes_.insert(memory_bytes).second) return;
  for (auto& [group, waiting] : groups_) {
    const auto line = waiting.lines.find(from);
    if (line == waiting.lines.end()) continue;
    const Line requests = line->second;
    for (const auto& [arrival, request] : requests) {
      if (request->submit.memory_bytes > memory_bytes) continue;
      unlink(waiting, from, *request);
      link(waiting, memory_bytes, *request);
    }
  }
}

void Queue::add(Request& request) {
  auto [waiting, fresh] = groups_.try_emplace(request.group);
  if (fresh) waiting->second.turn = next_turn_++;
  link(waiting->second, size_class(request), request);
  functions_[request.submit.function].emplace(request.arrival, &request);
  ++tenants_[request.submit.tenant];
  ++size_;
  request.queued = true;
}

void Queue::remove(Request& request) {
  const auto waiting = groups_.find(request.group);
  unlink(waiting->second, size_class(request), request);
  if (waiting->second.lines.empty()) groups_.erase(waiting);
  const auto function = functions_.find(request.submit.function);
  function->second.erase(request.arrival);
  if (function->second.empty()) functions_.erase(function);
  const auto tenant = tenants_.find(request.submit.tenant);
  if (--tenant->second == 0) tenants_.erase(tenant);
  --size_;
  request.queued = false;
}

void Queue::took_turn(const Group& group) {
  const auto waiting = groups_.find(group);
  if (waiting == groups_.end()) return;
  const uint64_t turn = next_turn_++;
  for (const auto& [size, line] : waiting->second.lines) {
    auto& turns = turns_[size];
    turns.erase(waiting->second.turn);
    turns.emplace(turn, group);
  }
  waiting->second.turn = turn;
}

size_t Queue::size_of(TenantId tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second;
}

std::vector<Request*> Queue::of_function(FunctionId function) const {
  std::vector<Request*> requests;
  if (const auto found = functions_.find(function); found != functions_.end())
    for (const auto& [arrival, request] : found->second) requests.push_back(request);
  return requests;
}

std::optional<Group> Queue::first_group(uint64_t memory_bytes) const {
  const std::pair<const uint64_t, Group>* first = nullptr;
  for (auto it = turns_.begin(); it != turns_.end() && it->first <= memory_bytes; ++it)
    if (!first || it->second.begin()->first < first->first) first = &*it->second.begin();
  if (!first) return std::nullopt;
  return first->second;
}

std::optional<Group> Queue::only_group(uint64_t memory_bytes) const {
  std::optional<Group> only;
  for (auto it = turns_.begin(); it != turns_.end() && it->first <= memory_bytes; ++it) {
    if (it->second.size() > 1) return std::nullopt;
    const Group& group = it->second.begin()->second;
    if (only && *only != group) return std::nullopt;
    only = group;
  }
  return only;
}

Request* Queue::first_of(const Group& group, uint64_t memory_bytes) const {
  const auto waiting = groups_.find(group);
  if (waiting == groups_.end()) return nullptr;
  const std::pair<const uint64_t, Request*>* first = nullptr;
  const auto& lines = waiting->second.lines;
  for (auto it = lines.begin(); it != lines.end() && it->first <= memory_bytes; ++it)
    if (!first || it->second.begin()->first < first->first) first = &*it->second.begin();
  return first ? first->second : nullptr;
}

}  // namespace quern::sched
