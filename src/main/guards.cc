// SPDX-License-Identifier: Apache-2.0
#include "main/guards.h"

#include <fmt/format.h>

#include <algorithm>

#include "hal/guarded.h"
#include "main/tensors.h"

namespace quern::main {
namespace {

// The buffers that an argument of a kernel may be, by their names: an entry may be launched in several steps.
std::string buffers_of(const Manifest& manifest, const hal::GuardFinding& finding, uint32_t& element_bytes) {
  std::set<std::string> names;
  for (const KernelDecl& kernel : manifest.kernels) {
    if (kernel.entry != finding.entry || finding.argument >= kernel.arguments.size()) continue;
    const ArgumentDecl& argument = kernel.arguments[finding.argument];
    if (argument.kind != ArgumentDecl::Kind::kBuffer) continue;
    const BufferDecl& buffer = manifest.buffers[argument.buffer];
    names.insert(fmt::format("'{}'", buffer.name));
    element_bytes = size_of(buffer.dtype);  // the kernel's type, so that it is the same for all
  }
  if (names.empty()) return "that no kernel has used yet";
  return fmt::format("{}", fmt::join(names, " or "));
}

// An element of a byte that may lie before the first one.
int64_t element_at(int64_t byte, int64_t size) { return byte >= 0 ? byte / size : -((-byte + size - 1) / size); }

std::string describe(const Manifest& manifest, const hal::GuardFinding& finding) {
  uint32_t element_bytes = 1;
  const std::string buffer = buffers_of(manifest, finding, element_bytes);
  const auto size = static_cast<int64_t>(element_bytes);
  const int64_t first = element_at(finding.first, size), last = element_at(finding.last, size);
  const std::string where = fmt::format(
      "{} its {} elements: {}", first < 0 ? "before" : "behind", finding.size_bytes / element_bytes,
      first == last
          ? fmt::format("element {} (byte {})", first, first * size)
          : fmt::format("elements {} to {} (bytes {} to {})", first, last, first * size, last * size + size - 1));
  if (finding.is_by_kernel)
    return fmt::format("kernel '{}' writes outside of buffer {}, {}; check its indices", finding.entry, buffer, where);
  return fmt::format("a kernel writes far outside of its buffers, near buffer {}, {}; check all indices", buffer,
                     where);
}

// How long a guarded run may take of a call that took `alone` without guards: a second for each millisecond, since a
// loop of short launches takes some hundred times as long with guards, and a minute more. A guarded run that hangs, or
// that waits for memory that nobody gives back, must end too.
Duration patience_for(Duration alone) {
  constexpr int64_t kLeast = 60, kMost = kLongestTimeout.ns / 1'000'000'000;
  return Duration::seconds(std::min(kMost, kLeast + alone.ns / 1'000'000));
}

// The settings of the function without what it limits its runs to.
Settings without_limits(Settings settings) {
  settings.timeout = kLongestTimeout;
  settings.device_time.reset();
  settings.memory_bytes.reset();
  settings.time_request.reset();
  settings.time_limit.reset();
  settings.units.reset();
  return settings;
}

// Whether a guarded run ended for want of time or memory. kInvalid says so too: a call that succeeded without guards is
// invalid only if it does not fit a device whose memory holds all buffers with their guards.
bool is_for_want(ErrorCode code) {
  return code == ErrorCode::kDeadline || code == ErrorCode::kExhausted || code == ErrorCode::kInvalid ||
         code == ErrorCode::kUnavailable;
}

bool has_poison(std::span<const std::byte> element, uint8_t poison) {
  return std::all_of(element.begin(), element.end(), [&](std::byte byte) { return byte == std::byte{poison}; });
}

}  // namespace

// Memory is poisoned when it is made, and executors keep it for the next call of the same plan: a plan that comes again
// gets a new daemon.
Result<Local::Answer> Guards::call(Side& side, const client::InferRequest& request, const Binding& binding,
                                   Duration alone) {
  const std::string plan = plan_key(folder_.parsed.manifest.value(), binding);
  if (!side.local || !side.plans.insert(plan).second) {
    side.function.reset();
    side.local.reset();
    side.plans = {plan};
    LocalFlags flags = flags_;
    flags.poison = side.poison;
    QUERN_TRY(side.local, Local::create(flags));
    QUERN_TRY(side.function, side.local->deploy(folder_, false));
    side.function->live_settings->set(without_limits(side.function->settings()));
  }
  client::InferRequest patient = request;
  patient.parameters["timeout"] = patience_for(alone).ns / 1000;
  return side.local->call(side.function, patient, false);
}

Result<Guards::Verdict> Guards::verdict_of(Side& side, const Error& error, Duration alone) {
  if (error.code == ErrorCode::kCancelled) return error;
  if (const auto finding = hal::finding_in(error.text))
    return Verdict{.mistake = describe(*folder_.parsed.manifest, *finding)};
  if (!is_for_want(error.code))
    return Verdict{.mistake = fmt::format("with {:#04x} in all bytes that nobody wrote: {}", side.poison, error.text)};
  side.local.reset();  // what the run left behind must not be in the way of the next one
  if (error.code == ErrorCode::kDeadline)
    return Verdict{.why_not_examined =
                       fmt::format("with them, which takes more time and memory, the call had not ended "
                                   "after {}",
                                   to_string(patience_for(alone)))};
  return Verdict{.why_not_examined = error.text};
}

Result<Guards::Verdict> Guards::run(const client::InferRequest& request, const Binding& binding, bool is_same,
                                    Duration alone) {
  OutputBytes first;
  for (Side& side : sides_) {
    const auto answer = call(side, request, binding, alone);
    if (!answer.ok()) return verdict_of(side, answer.error(), alone);
    if (&side == &sides_[0])
      first = copy_of(answer->answer.outputs);
    else
      return compare(request, binding, first, answer->answer.outputs, is_same, alone);
  }
  return Verdict{};
}

Result<std::optional<std::string>> Guards::explain_fault(const client::InferRequest& request, const Binding& binding) {
  const auto answer = call(sides_[0], request, binding, Duration{0});
  const auto finding = answer.ok() ? std::nullopt : hal::finding_in(answer.error().text);
  sides_[0].local.reset();  // memory that a fault left behind is not fresh
  if (!finding) return std::optional<std::string>();
  return std::optional(describe(*folder_.parsed.manifest, *finding));
}

Result<Guards::Verdict> Guards::compare(const client::InferRequest& request, const Binding& binding,
                                        const OutputBytes& first, std::span<const client::TensorView> second,
                                        bool is_same, Duration alone) {
  for (size_t i = 0; i < second.size(); ++i) {
    const client::TensorView& output = second[i];
    const size_t size = size_of(output.dtype), count = elements_of(output);
    size_t never = 0, at = 0;
    for (size_t element = count; element-- > 0;)
      if (has_poison(std::span(first[i]).subspan(element * size, size), sides_[0].poison) &&
          has_poison(output.bytes.subspan(element * size, size), sides_[1].poison))
        ++never, at = element;
    if (never > 0)
      return Verdict{.mistake = fmt::format(
                         "output '{}': {} of {} elements are never written, or only with what nobody wrote; the first "
                         "is element {} (byte {}); write all, or state zero: true",
                         output.name, never, count, at, at * size)};
  }
  const auto found = is_same ? difference(first, second) : std::nullopt;
  if (!found) return Verdict{};
  // A function that adds floats in any order, for example: it may have given the same twice by chance.
  const OutputBytes kept = copy_of(second);
  const auto again = call(sides_[1], request, binding, alone);
  if (!again.ok()) return verdict_of(sides_[1], again.error(), alone);
  if (difference(kept, again->answer.outputs)) return Verdict{};
  return Verdict{.mistake = fmt::format("{} with other bytes in the memory that nobody wrote; a kernel reads scratch "
                                        "before it is written, or outside of a buffer",
                                        *found)};
}

}  // namespace quern::main
