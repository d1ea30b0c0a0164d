// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace quern {

/// What the *caller* may do about a failure; the text says what happened.
enum class ErrorCode : uint8_t {
  kInvalid,      ///< the same call can never succeed
  kNotFound,     ///< the named object does not exist
  kConflict,     ///< it exists already, or changed meanwhile
  kDenied,       ///< this caller may not
  kExhausted,    ///< a limit was reached; retry when something is released
  kDeadline,     ///< it took longer than was allowed
  kCancelled,    ///< someone asked for this
  kUnavailable,  ///< the device, process or peer is away; retry elsewhere or later
  kUnsupported,  ///< this device or build cannot do it; its caps said so beforehand
  kFaulted,      ///< the caller's own kernel broke; do not retry
  kInternal,     ///< our bug
};

/// The public name of a code ("not_found"), the same in C++, JSON and the CLI.
std::string_view name_of(ErrorCode code);

/// The code of a public name; nothing if there is none.
std::optional<ErrorCode> error_code_of(std::string_view name);

/// Text: `<object>: <what is wrong>; <what to do>`. Lower case, no stop, names and numbers included.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
};

inline Error invalid(std::string text) { return {ErrorCode::kInvalid, std::move(text)}; }
inline Error not_found(std::string text) { return {ErrorCode::kNotFound, std::move(text)}; }
inline Error conflict(std::string text) { return {ErrorCode::kConflict, std::move(text)}; }
inline Error denied(std::string text) { return {ErrorCode::kDenied, std::move(text)}; }
inline Error exhausted(std::string text) { return {ErrorCode::kExhausted, std::move(text)}; }
inline Error unavailable(std::string text) { return {ErrorCode::kUnavailable, std::move(text)}; }
inline Error unsupported(std::string text) { return {ErrorCode::kUnsupported, std::move(text)}; }
inline Error internal(std::string text) { return {ErrorCode::kInternal, std::move(text)}; }

/// A value, or why there is none. Shaped like std::expected, which Clang 14 cannot compile here.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or why not.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

/// Dies with file, line and text: a broken invariant is our bug and our supervisor's business.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& text);

}  // namespace quern

#define QUERN_JOIN2(a, b) a##b
#define QUERN_JOIN(a, b) QUERN_JOIN2(a, b)
#define QUERN_TRY_STATUS(result, expression) \
  if (auto result = (expression); !result.ok()) return std::move(result).error()
#define QUERN_TRY_VALUE(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result.ok()) return std::move(result).error();    \
  declaration = std::move(result).value()
#define QUERN_TRY_PICK(_1, _2, name, ...) name
#define QUERN_TRY_1(expression) QUERN_TRY_STATUS(QUERN_JOIN(result_, __LINE__), expression)
#define QUERN_TRY_2(declaration, expression) QUERN_TRY_VALUE(QUERN_JOIN(result_, __LINE__), declaration, expression)

/// `QUERN_TRY(auto x, make())` or `QUERN_TRY(status())`: return the error, or go on with the value.
#define QUERN_TRY(...) QUERN_TRY_PICK(__VA_ARGS__, QUERN_TRY_2, QUERN_TRY_1)(__VA_ARGS__)

/// An invariant, on in release: the process dies when it does not hold.
#define QUERN_CHECK(condition, text) \
  if (!(condition)) ::quern::check_failed(__FILE__, __LINE__, #condition, text)
