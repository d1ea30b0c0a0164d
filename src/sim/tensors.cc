// SPDX-License-Identifier: Apache-2.0
#include "sim/tensors.h"

namespace quern::sim {

Tensors::Tensors(const Model& model, uint64_t seed, Agenda& agenda)
    : model_(model),
      agenda_(agenda),
      prng_(Prng(seed ^ 0x7e45).next()),
      next_(static_cast<uint32_t>(model.objects.size()) + 1),
      leases_(model.tenants.size()) {}

Tensors::Held Tensors::begin(uint32_t function, sched::Submit& submit) {
  const FunctionModel& model = model_.functions[function];
  Held held;
  submit.objects.resize(model.objects.size());
  submit.makes.clear();
  if (model.passes_bytes > 0) {
    const auto& leases = leases_[model.tenant];
    held.passed = leases.empty() || prng_.below(2) == 0 ? next_++ : leases[prng_.below(leases.size())];
    Tensor& tensor = tensors_[held.passed];
    if (tensor.bytes == 0) tensor.bytes = model.passes_bytes;
    ++tensor.requests;
    submit.objects.push_back({sched::ObjectId{held.passed}, tensor.bytes, true});
  }
  if (model.leaves_bytes > 0) {
    held.made = next_++;
    tensors_[held.made].bytes = model.leaves_bytes;
    submit.makes.push_back({sched::ObjectId{held.made}, model.leaves_bytes, model.device_time});
  }
  return held;
}

void Tensors::end(Time now, uint32_t function, const Held& held, bool is_good) {
  if (held.passed != 0) {
    --tensors_.at(held.passed).requests;
    drop_unless_used(now, held.passed);
  }
  if (held.made == 0) return;
  auto& leases = leases_[model_.functions[function].tenant];
  if (is_good) {
    tensors_.at(held.made).is_leased = true;
    leases.push_back(held.made);
  } else {
    drop_unless_used(now, held.made);
  }
  if (leases.size() <= kMostLeases) return;
  const uint32_t oldest = leases.front();
  leases.pop_front();
  tensors_.at(oldest).is_leased = false;
  drop_unless_used(now, oldest);
}

void Tensors::drop_unless_used(Time now, uint32_t tensor) {
  const auto found = tensors_.find(tensor);
  if (found->second.requests > 0 || found->second.is_leased) return;
  tensors_.erase(found);
  agenda_.put(now, Agenda::Kind::kObjectGone, tensor);
}

void Tensors::restart() {
  tensors_.clear();
  leases_.assign(leases_.size(), {});
}

}  // namespace quern::sim
