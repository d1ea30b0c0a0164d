// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <utility>

#include "base/hash.h"
#include "base/suggest.h"
#include "base/units.h"
#include "server/error_map.h"
#include "server/http/infer_json.h"
#include "server/http/setup_json.h"
#include "server/tensor_json.h"

namespace quern::server {

Status pick_outputs(const InferRequest& request, std::span<const BufferDecl* const> outputs,
                    std::vector<OutputPick>& into) {
  into.clear();
  if (!request.selects_outputs) {
    for (uint32_t i = 0; i < outputs.size(); ++i) into.push_back({i, request.binary_data_output});
  }
  for (const OutputWish& wish : request.outputs) {
    const auto found =
        std::find_if(outputs.begin(), outputs.end(), [&](auto* decl) { return decl->name == wish.name; });
    if (found == outputs.end()) {
      std::vector<std::string> known;
      for (const BufferDecl* decl : outputs) known.push_back(decl->name);
      return invalid(fmt::format("output {}: the function has none of this name{}", wish.name.substr(0, 64),
                                 did_you_mean(wish.name, known)));
    }
    const auto index = static_cast<uint32_t>(found - outputs.begin());
    if (std::any_of(into.begin(), into.end(), [&](const OutputPick& pick) { return pick.index == index; }))
      return invalid(fmt::format("output {}: asked for twice", wish.name));
    if (wish.stays)
      into.push_back({index, false, wish.lease.value_or(daemon::kUsualLease)});
    else
      into.push_back({index, wish.is_binary.value_or(request.binary_data_output)});
  }
  for (const OutputPick& pick : into) {
    const BufferDecl& decl = *outputs[pick.index];
    if (!pick.is_binary && !pick.lease && (decl.dtype == Dtype::kFp16 || decl.dtype == Dtype::kBf16))
      return invalid(fmt::format("output {}: {} is sent as binary only; ask for binary (\"binary_data\": true)",
                                 decl.name, protocol_name_of(decl.dtype)));
  }
  return {};
}

namespace {

bool is_json(const OutputPick& pick) { return !pick.is_binary && !pick.lease; }

}  // namespace

uint64_t json_elements_of(const daemon::Call& call, std::span<const OutputPick> picks) {
  uint64_t elements = 0;
  for (const OutputPick& pick : picks) {
    const daemon::CallTensor& tensor = call.outputs[pick.index];
    if (is_json(pick)) elements += tensor.bytes.size() / size_of(tensor.dtype);
  }
  return elements;
}

Error AnswerWriter::too_long(std::string_view output, uint64_t most_bytes) {
  return invalid(
      fmt::format("output {}: the answer would have more than {} of JSON; ask for binary (\"binary_data\": true), or "
                  "let the output stay on the server (\"object\": true)",
                  output, show_bytes(most_bytes)));
}

AnswerWriter::AnswerWriter(std::string& out, const daemon::Function& function, const InferRequest& request,
                           const daemon::Call& call, std::span<const OutputPick> picks, uint64_t most_bytes)
    : out_(out), call_(call), picks_(picks), most_bytes_(most_bytes) {
  begin(function, request);
}

void AnswerWriter::append_number(uint64_t value) {
  char text[24];
  out_.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

void AnswerWriter::begin(const daemon::Function& function, const InferRequest& request) {
  out_ += "{\"model_name\":\"";
  out_ += function.name;
  out_ += "\",\"model_version\":\"";
  out_ += short_version(function.version);
  out_ += '"';
  if (request.id) {
    out_ += ",\"id\":";
    append_json_string(out_, *request.id);
  }
  out_ += ",\"parameters\":{";
  for (size_t i = 0; i < call_.rounds.size(); ++i) {
    out_ += i > 0 ? ",\"" : "\"";
    out_ += call_.rounds[i].first;
    out_ += "\":";
    append_number(call_.rounds[i].second);
  }
  if (request.tells_setup) {
    out_ += call_.rounds.empty() ? "\"setup\":" : ",\"setup\":";
    out_ += boost::json::serialize(setup_json(call_.setup, call_.times.submitted));
  }
  out_ += "},\"outputs\":[";
}

void AnswerWriter::begin_output() {
  const OutputPick& pick = picks_[pick_];
  const daemon::CallTensor& tensor = call_.outputs[pick.index];
  out_ += pick_ > 0 ? ",{\"name\":\"" : "{\"name\":\"";
  out_ += tensor.name;
  out_ += "\",\"datatype\":\"";
  out_ += protocol_name_of(tensor.dtype);
  out_ += "\",\"shape\":[";
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (d > 0) out_ += ',';
    append_number(static_cast<uint64_t>(tensor.shape[d]));
  }
  if (pick.lease) {
    out_ += "],\"parameters\":{\"object\":\"";
    out_ += tensor.object;
    out_ += "\",\"bytes\":";
    append_number(tensor.bytes.size());
    out_ += ",\"expires_in\":\"";
    out_ += to_string(tensor.lease);
    out_ += "\"}}";
  } else if (pick.is_binary) {
    out_ += "],\"parameters\":{\"binary_data_size\":";
    append_number(tensor.bytes.size());
    out_ += "}}";
  } else {
    out_ += "],\"data\":";
  }
}

Result<bool> AnswerWriter::append(uint64_t elements) {
  while (pick_ < picks_.size()) {
    if (!std::exchange(is_begun_, true)) begin_output();
    if (is_json(picks_[pick_])) {
      const daemon::CallTensor& tensor = call_.outputs[picks_[pick_].index];
      const uint64_t all = tensor.bytes.size() / size_of(tensor.dtype);
      const uint64_t count = std::min(elements, all - written_);
      if (count == 0 && all > 0) return true;
      QUERN_TRY(append_tensor(out_, tensor.name, tensor.dtype, tensor.bytes, {written_, count}));
      if (out_.size() > most_bytes_) return too_long(tensor.name, most_bytes_);
      written_ += count;
      elements -= count;
      if (written_ < all) return true;
      out_ += '}';
    }
    ++pick_;
    written_ = 0;
    is_begun_ = false;
  }
  out_ += "]}";
  return false;
}

}  // namespace quern::server
