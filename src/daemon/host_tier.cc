// SPDX-License-Identifier: Apache-2.0
#include "daemon/host_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

constexpr int kReaders = 2;
// Below this nobody looks for entries to forget.
constexpr size_t kFewEntries = 64;

Error stopping(uint64_t number) {
  return unavailable(fmt::format("object {}: is not read, the server is stopping; retry elsewhere or later", number));
}

Error unknown(uint64_t number) {
  return not_found(fmt::format("object {}: no function has it any more; deploy the one that did again", number));
}

}  // namespace

Result<std::unique_ptr<HostTier>> HostTier::create(const ObjectStore& store, std::vector<int> cores) {
  std::unique_ptr<HostTier> self(new HostTier(store, std::move(cores)));
  self->threads_.with([&](auto& threads) {
    for (int i = 0; i < kReaders; ++i)
      threads.emplace_back(fmt::format("fetch{}", i), [tier = self.get(), i] { tier->work(i > 0); });
  });
  return self;
}

// The queue needs no limit of its own: an object is in it once at most.
HostTier::HostTier(const ObjectStore& store, std::vector<int> cores)
    : store_(store), cores_(std::move(cores)), queue_(std::numeric_limits<size_t>::max()) {}

HostTier::~HostTier() { stop(); }

void HostTier::stop() {
  for (const uint64_t number : queue_.close()) tell(number, stopping(number));
  std::vector<os::Thread> ending;
  threads_.with([&](auto& threads) { std::swap(threads, ending); });
  ending.clear();  // joins
}

void HostTier::work(bool is_second) {
  if (!cores_.empty()) (void)os::pin_to(cores_);
  if (is_second) os::work_in_background();
  while (const auto number = queue_.pop(is_second)) tell(*number, read(*number));
}

void HostTier::know(const ConstantRef& constant) {
  known_.with([&](Known& known) {
    // Only when they have doubled, so that each costs the same however many there are.
    if (known.entries.size() >= known.forget_at) {
      std::erase_if(known.entries, [](const auto& item) {
        const Entry& entry = item.second;
        return entry.constant.expired() && entry.object.expired() && entry.waiting.empty();
      });
      known.forget_at = std::max(kFewEntries, 2 * known.entries.size());
    }
    known.entries[constant->number].constant = constant;
  });
}

void HostTier::fetch(uint64_t number, Done done) {
  HostObjectRef held;
  bool is_known = false, is_first = false;
  known_.with([&](Known& known) {
    const auto it = known.entries.find(number);
    is_known = it != known.entries.end();
    if (!is_known || (held = it->second.object.lock())) return;
    is_first = it->second.waiting.empty();
    it->second.waiting.push_back(std::move(done));
  });
  if (!is_known) return done(unknown(number));
  if (held) return done(std::move(held));
  // Closed: whoever closed it may have come before us, and not have seen this one.
  if (is_first && !queue_.push(uint64_t{number})) tell(number, stopping(number));
}

Result<HostObjectRef> HostTier::read(uint64_t number) const {
  const ConstantRef constant = known_.with([&](const Known& known) -> ConstantRef {
    const auto it = known.entries.find(number);
    return it == known.entries.end() ? nullptr : it->second.constant.lock();
  });
  if (!constant) return unknown(number);
  const auto no_memory = [&](const Error& why) {
    return Error{why.code, fmt::format("object {}: {}", constant->hash, why.text)};
  };
  auto fd = os::create_shared_memory("quern-object", constant->size_bytes);
  if (!fd.ok()) return no_memory(fd.error());
  // A system call fills it: where the kernel finds no memory for a page, that is an error and no SIGBUS.
  QUERN_TRY(store_.copy_to(constant->hash, constant->size_bytes, *fd));
  if (const Status sealed = os::seal(*fd, os::Sealed::kNobodyWrites); !sealed.ok()) return no_memory(sealed.error());
  auto object = std::make_shared<HostObject>();
  object->number = number;
  object->hash = constant->hash;
  object->size_bytes = constant->size_bytes;
  object->fd = std::move(fd).value();
  return HostObjectRef(std::move(object));
}

void HostTier::tell(uint64_t number, const Result<HostObjectRef>& end) {
  std::vector<Done> waiting;
  known_.with([&](Known& known) {
    Entry& entry = known.entries.at(number);
    if (end.ok()) entry.object = *end;
    std::swap(entry.waiting, waiting);
  });
  for (const Done& done : waiting) done(end);
}

}  // namespace quern::daemon
