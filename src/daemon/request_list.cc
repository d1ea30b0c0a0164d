// SPDX-License-Identifier: Apache-2.0
#include "daemon/request_list.h"

#include <algorithm>

namespace quern::daemon {

void RequestList::add(LiveCall& call) {
  LiveCall*& newest = newest_[call.tenant->id];
  call.newer = nullptr;
  call.older = newest;
  if (newest) newest->newer = &call;
  newest = &call;
}

void RequestList::end(LiveCall& call, sched::End end, const std::string& device) {
  (call.newer ? call.newer->older : newest_[call.tenant->id]) = call.older;
  if (call.older) call.older->newer = call.newer;
  call.newer = call.older = nullptr;
  if (ended_.size() < kMostEnded) ended_.emplace_back();
  Ended& one = ended_[next_ended_];
  next_ended_ = (next_ended_ + 1) % kMostEnded;
  one.tenant = call.tenant;
  one.request = call.request;
  one.id = call.id;
  one.function = call.function->name;
  one.device = device;
  one.end = end;
  one.priority = call.priority;
  one.times = call.times;
  one.account = call.account;
  one.setup = call.setup;
}

const RequestList::Ended* RequestList::find_ended(const Tenant& tenant, std::string_view id) const {
  const auto it = std::find_if(ended_.begin(), ended_.end(),
                               [&](const Ended& one) { return one.tenant == &tenant && one.id == id; });
  return it == ended_.end() ? nullptr : &*it;
}

RequestAccount* RequestList::account_of_ended(uint64_t request) {
  const auto it = std::find_if(ended_.begin(), ended_.end(), [&](const Ended& one) { return one.request == request; });
  return it == ended_.end() ? nullptr : &it->account;
}

void RequestList::clear() { std::fill(newest_.begin(), newest_.end(), nullptr); }

std::vector<RequestStatus> RequestList::list(const Tenant& tenant, Time now,
                                             const std::function<Whereabouts(const LiveCall&)>& find) const {
  std::vector<RequestStatus> list;
  for (const LiveCall* call = newest_[tenant.id]; call && list.size() < kMostListed; call = call->older) {
    Whereabouts where = find(*call);
    RequestStatus& one = list.emplace_back();
    one.id = call->id;
    one.function = call->function->name;
    one.state = where.state;
    one.device = std::move(where.device);
    one.priority = call->priority;
    one.age = now - call->times.submitted;
  }
  std::reverse(list.begin(), list.end());
  for (size_t i = 1; i <= ended_.size(); ++i) {
    const Ended& ended = ended_[(next_ended_ + kMostEnded - i) % kMostEnded];
    if (ended.tenant != &tenant) continue;
    RequestStatus& one = list.emplace_back();
    one.id = ended.id;
    one.function = ended.function;
    one.state = "ended";
    one.device = ended.device;
    one.end = sched::name_of(ended.end);
    one.priority = ended.priority;
    one.age = now - ended.times.submitted;
    one.took = ended.times.answered - ended.times.submitted;
  }
  for (RequestStatus& one : list) one.tenant = tenant.name;
  return list;
}

}  // namespace quern::daemon
