// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "base/hash.h"
#include "base/suggest.h"
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

Status append_answer(std::string& out, const daemon::Function& function, const InferRequest& request,
                     const daemon::Call& call, std::span<const OutputPick> picks) {
  const auto number = [&](auto value) {
    char text[24];
    out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  };
  out += "{\"model_name\":\"";
  out += function.name;
  out += "\",\"model_version\":\"";
  out += short_version(function.version);
  out += '"';
  if (request.id) {
    out += ",\"id\":";
    append_json_string(out, *request.id);
  }
  out += ",\"parameters\":{";
  for (size_t i = 0; i < call.rounds.size(); ++i) {
    out += i > 0 ? ",\"" : "\"";
    out += call.rounds[i].first;
    out += "\":";
    number(call.rounds[i].second);
  }
  if (request.tells_setup) {
    out += call.rounds.empty() ? "\"setup\":" : ",\"setup\":";
    out += boost::json::serialize(setup_json(call.setup, call.times.submitted));
  }
  out += "},\"outputs\":[";
  for (size_t i = 0; i < picks.size(); ++i) {
    const daemon::CallTensor& tensor = call.outputs[picks[i].index];
    out += i > 0 ? ",{\"name\":\"" : "{\"name\":\"";
    out += tensor.name;
    out += "\",\"datatype\":\"";
    out += protocol_name_of(tensor.dtype);
    out += "\",\"shape\":[";
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (d > 0) out += ',';
      number(tensor.shape[d]);
    }
    if (picks[i].lease) {
      out += "],\"parameters\":{\"object\":\"";
      out += tensor.object;
      out += "\",\"bytes\":";
      number(tensor.bytes.size());
      out += ",\"expires_in\":\"";
      out += to_string(tensor.lease);
      out += "\"}}";
    } else if (picks[i].is_binary) {
      out += "],\"parameters\":{\"binary_data_size\":";
      number(tensor.bytes.size());
      out += "}}";
    } else {
      out += "],\"data\":";
      QUERN_TRY(append_tensor(out, tensor.name, tensor.dtype, tensor.bytes));
      out += '}';
    }
  }
  out += "]}";
  return {};
}

}  // namespace quern::server
