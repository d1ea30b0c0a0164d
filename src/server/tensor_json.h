// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace quern::server {

/// Takes the elements of one tensor as JSON brings them, flat or nested as its shape, and writes each to its place.
///
/// Exact: integers of 64 bits stay whole, decimal fractions are rounded once to the dtype, and what does not fit is
/// an error that names the element. Feed it the events of the `data` array, the outer brackets included; every method
/// is false from the first mistake on, which is then in `error()`.
class TensorReader {
 public:
  /// `name`, `shape` and `into` outlive it; `into` has the bytes of all elements. fp16 and bf16 are refused earlier.
  TensorReader(std::string_view name, Dtype dtype, std::span<const int64_t> shape, std::span<std::byte> into);

  bool begin_array();
  bool end_array();
  bool put_bool(bool value);
  bool put_int64(int64_t value);
  bool put_uint64(uint64_t value);        ///< past the largest int64
  bool put_real(std::string_view text);   ///< a number with a fraction or an exponent, or too long for 64 bits
  bool put_other(std::string_view what);  ///< anything else: always a mistake

  const std::optional<Error>& error() const { return error_; }

 private:
  bool fail(std::string text);
  bool refuse(std::string_view shown);
  bool place(uint64_t bits);
  bool may_take();

  std::string_view name_;
  Dtype dtype_;
  std::span<const int64_t> shape_;
  std::span<std::byte> into_;
  uint64_t elements_ = 0, taken_ = 0;
  bool nested_ = false;
  std::vector<int64_t> counts_;  ///< elements so far at each open bracket
  std::optional<Error> error_;
};

/// Which elements of a tensor: those from `first` on, `count` of them or as many as there are.
struct ElementRange {
  uint64_t first = 0, count = UINT64_MAX;
};

/// Appends the elements of the range, flat, as `[1.5,2.0,…]`: brackets come with the first and the last element of all,
/// so that ranges one after the other make a whole. Reading it back gives the same bits. kInvalid for NaN and Inf,
/// which JSON cannot say, and for fp16 and bf16: ask for binary.
Status append_tensor(std::string& out, std::string_view name, Dtype dtype, std::span<const std::byte> bytes,
                     ElementRange range = {});

/// The number of elements of a shape; nothing if negative or past 2^63.
std::optional<uint64_t> elements_of(std::span<const int64_t> shape);

}  // namespace quern::server
