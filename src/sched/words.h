// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sched/types.h"

/// How text.cc and config_text.cc write and read the words of a line.
namespace quern::sched::words {

struct Unit {
  std::string_view name;
  uint64_t factor;
};
inline constexpr Unit kTimeUnits[] = {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}};
inline constexpr Unit kByteUnits[] = {{"GiB", uint64_t{1} << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

// The forms of base/ are for people: they round. A log must read back to the bit.
template <size_t N>
std::string exact(uint64_t value, const Unit (&units)[N]) {
  for (const Unit& unit : units)
    if (value != 0 && value % unit.factor == 0) return fmt::format("{}{}", value / unit.factor, unit.name);
  return fmt::format("0{}", units == static_cast<const void*>(kTimeUnits) ? "ms" : "B");
}

template <size_t N>
std::optional<uint64_t> parse_exact(std::string_view text, const Unit (&units)[N]) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc()) return std::nullopt;
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : units)
    if (unit.name == name && number <= std::numeric_limits<int64_t>::max() / unit.factor) return number * unit.factor;
  return std::nullopt;
}

template <class T>
inline constexpr std::string_view kPrefix = "?";
template <>
inline constexpr std::string_view kPrefix<DeviceId> = "d";
template <>
inline constexpr std::string_view kPrefix<DomainId> = "dom";
template <>
inline constexpr std::string_view kPrefix<TenantId> = "t";
template <>
inline constexpr std::string_view kPrefix<FunctionId> = "f";
template <>
inline constexpr std::string_view kPrefix<ObjectId> = "o";
template <>
inline constexpr std::string_view kPrefix<RequestId> = "r";
template <>
inline constexpr std::string_view kPrefix<ExecutorId> = "e";
template <>
inline constexpr std::string_view kPrefix<RunId> = "run";

template <class Tag>
std::string show(Id<Tag> id) {
  return fmt::format("{}{}", kPrefix<Id<Tag>>, id.value);
}
inline std::string show(Duration duration) {
  return duration == Duration::forever() ? "forever" : exact(static_cast<uint64_t>(duration.ns), kTimeUnits);
}
inline std::string show(LauncherId id) {
  return is_program(id) ? fmt::format("p{}", id.value - kFirstProgram)
                        : fmt::format("e{}.{}", id.value >> 8, id.value & 255);
}
template <class T>
std::string show_if(std::string_view key, const std::optional<T>& id) {
  return id ? fmt::format(" {}{}", key, show(*id)) : "";
}

/// The words of one line, taken one after another. The first mistake is kept; after it everything reads as nothing.
class Words {
 public:
  explicit Words(std::string_view line) : line_(line) {
    while (!line.empty()) {
      const size_t space = line.find(' ');
      if (space != 0) words_.push_back(line.substr(0, space));
      if (space == std::string_view::npos) break;
      line.remove_prefix(space + 1);
    }
  }

  std::string_view next() {
    if (at_ < words_.size()) return words_[at_++];
    wrong("has too few words");
    return "";
  }
  bool take(std::string_view word) {
    const bool same = at_ < words_.size() && words_[at_] == word;
    at_ += same;
    return same;
  }
  /// The value of `key=value`, which may be left out.
  std::optional<std::string_view> option(std::string_view key) {
    if (at_ == words_.size() || !words_[at_].starts_with(key) || words_[at_].substr(key.size(), 1) != "=")
      return std::nullopt;
    return words_[at_++].substr(key.size() + 1);
  }
  std::optional<std::pair<std::string_view, std::string_view>> any_option() {
    if (at_ == words_.size()) return std::nullopt;
    const std::string_view word = words_[at_++];
    const size_t equals = std::min(word.find('='), word.size());
    return {{word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))}};
  }

  void read(std::string_view word, uint64_t& into) {
    const char* end = word.data() + word.size();
    const auto [rest, problem] = std::from_chars(word.data(), end, into);
    if (problem != std::errc() || rest != end) wrong(fmt::format("'{}' is not a number", word));
  }
  template <class T>
  void read_small(std::string_view word, T& into) {
    uint64_t number = 0;
    read(word, number);
    if (number > std::numeric_limits<T>::max()) wrong(fmt::format("{} is too large", number));
    into = static_cast<T>(number);
  }
  template <class Tag>
  void read(std::string_view word, Id<Tag>& into) {
    const std::string_view prefix = kPrefix<Id<Tag>>;
    if (!word.starts_with(prefix)) return wrong(fmt::format("'{}' should be {} and a number", word, prefix));
    read(word.substr(prefix.size()), into.value);
  }
  // p1, or e3.0: a lane of an executor.
  void read(std::string_view word, LauncherId& into) {
    uint64_t number = 0, lane = 0;
    if (word.starts_with('p')) {
      read(word.substr(1), number);
      into = program_of(number);
      return;
    }
    const size_t dot = word.find('.');
    if (!word.starts_with('e') || dot == std::string_view::npos)
      return wrong(fmt::format("'{}' should be p and a number, or an executor, a dot and a lane", word));
    read(word.substr(1, dot - 1), number);
    read(word.substr(dot + 1), lane);
    into = lane_of(ExecutorId{number}, static_cast<uint32_t>(lane & 255));
  }
  void read(std::string_view word, Duration& into) {
    if (word == "forever") {
      into = Duration::forever();
    } else if (const auto value = parse_exact(word, kTimeUnits)) {
      into.ns = static_cast<int64_t>(*value);
    } else {
      wrong(fmt::format("'{}' is not a time; write a whole number with ns, us, ms or s", word));
    }
  }
  void read(std::string_view word, Time& into) {
    Duration since{};
    if (word == "never") {
      into = Time::never();
    } else {
      read(word, since);
      into.ns = since.ns;
    }
  }
  void read_bytes(std::string_view word, uint64_t& into) {
    if (const auto value = parse_exact(word, kByteUnits)) {
      into = *value;
    } else {
      wrong(fmt::format("'{}' is not a size; write a whole number with B, KiB, MiB or GiB", word));
    }
  }

  void wrong(std::string what) {
    if (mistake_.empty()) mistake_ = std::move(what);
  }
  Status end() {
    if (mistake_.empty() && at_ < words_.size()) wrong(fmt::format("'{}' is not expected there", words_[at_]));
    if (mistake_.empty()) return {};
    return invalid(fmt::format("'{}': {}", line_, mistake_));
  }

 private:
  std::string_view line_;
  std::vector<std::string_view> words_;
  size_t at_ = 0;
  std::string mistake_;
};

}  // namespace quern::sched::words
