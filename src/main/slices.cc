// SPDX-License-Identifier: Apache-2.0
#include "main/slices.h"

#include <fmt/format.h>

#include <algorithm>

#include "main/command.h"
#include "main/tensors.h"

namespace quern::main {

OutputBytes copy_of(std::span<const client::TensorView> outputs) {
  OutputBytes copies;
  for (const client::TensorView& output : outputs) copies.emplace_back(output.bytes.begin(), output.bytes.end());
  return copies;
}

std::optional<std::string> difference(const OutputBytes& whole, std::span<const client::TensorView> outputs) {
  if (outputs.size() != whole.size()) return fmt::format("has {} outputs, not {}", outputs.size(), whole.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto [mine, theirs] =
        std::mismatch(outputs[i].bytes.begin(), outputs[i].bytes.end(), whole[i].begin(), whole[i].end());
    if (mine == outputs[i].bytes.end() && theirs == whole[i].end()) continue;
    client::TensorView before = outputs[i];
    before.bytes = whole[i];
    if (before.bytes.size() != outputs[i].bytes.size()) return fmt::format("{} has another size", before.name);
    const auto element = static_cast<size_t>(mine - outputs[i].bytes.begin()) / size_of(before.dtype);
    return fmt::format("{}: element {} is {}, before it was {}", before.name, element,
                       show_element(outputs[i], element), show_element(before, element));
  }
  return std::nullopt;
}

Result<std::unique_ptr<Slices>> Slices::create(LocalFlags flags, const Folder& folder) {
  flags.slices = kSeed;
  QUERN_TRY(auto local, Local::create(flags));
  QUERN_TRY(auto function, local->deploy(folder, false));
  return std::unique_ptr<Slices>(new Slices(std::move(local), std::move(function)));
}

std::optional<std::string> Slices::run(const client::InferRequest& request, const OutputBytes& whole) {
  for (int round = 0; round < kRounds; ++round) {
    const auto answer = local_->call(function_, request, false);
    if (!answer.ok()) return answer.error().text;
    if (auto found = difference(whole, answer->answer.outputs)) return found;
  }
  return std::nullopt;
}

Result<uint64_t> Slices::note(const Binding& binding, const daemon::Call& call) {
  const Manifest& manifest = function_->manifest;
  QUERN_TRY(const Plan plan, make_plan(manifest, binding));
  std::vector<Row> planned(manifest.kernels.size());
  for (const PlannedLaunch& launch : plan.launches) {
    Row& row = planned[launch.kernel];
    ++row.launches;
    row.sliced += most_groups(launch) > 1;
  }
  uint64_t sliced = 0;
  for (size_t i = 0; i < std::min(planned.size(), call.kernels.size()); ++i) {
    if (planned[i].launches == 0 || call.kernels[i].launches == 0) continue;
    const std::string entry(manifest.kernels[i].shown());
    const std::string& reason = function_->unsliceable.at(i);
    auto row = std::find_if(rows_.begin(), rows_.end(),
                            [&](const Row& one) { return one.entry == entry && one.reason == reason; });
    if (row == rows_.end()) row = rows_.insert(rows_.end(), Row{entry, 0, 0, reason});
    const uint64_t launches = call.kernels[i].launches * kRounds;
    row->launches += launches;
    if (!reason.empty()) continue;
    const uint64_t cut = launches * planned[i].sliced / planned[i].launches;  // rounds that are alike are planned once
    row->sliced += cut;
    sliced += cut;
  }
  return sliced;
}

void Slices::print() const {
  std::vector<std::vector<std::string>> rows{{"KERNEL", "LAUNCHES", "IN SLICES", ""}};
  for (const Row& row : rows_) {
    const std::string why = row.sliced ? "" : row.reason.empty() ? "has one group" : row.reason;
    rows.push_back({row.entry, fmt::format("{}", row.launches), fmt::format("{}", row.sliced), why});
  }
  const size_t right[] = {1, 2};
  fmt::print("\nin random slices, {} times each (seed {}):\n{}", kRounds, kSeed, align(rows, right));
}

std::string Slices::json() const {
  std::string list;
  for (const Row& row : rows_)
    list +=
        fmt::format("{}{{\"entry\": {}, \"launches\": {}, \"sliced\": {}, \"reason\": {}}}", list.empty() ? "" : ", ",
                    json_string(row.entry), row.launches, row.sliced, json_string(row.reason));
  return fmt::format("[{}]", list);
}

}  // namespace quern::main
