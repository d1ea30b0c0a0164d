// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "daemon/deployer.h"
#include "function/constant.h"
#include "function/plan_builder.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

// Numbers of content that no function has: one that comes back finds its constants where they still are. What was
// forgotten gets a new number, and is loaded again.
constexpr size_t kMostRemembered = 65536;

/// Files that reading the manifest and building its programs take: of constants the elements are stored, not the files.
std::set<std::string> sources_of(const Manifest& manifest) {
  Manifest without_buffers;
  without_buffers.programs = manifest.programs;
  return files_of(without_buffers);
}

/// The constants with their sizes, which are the same whatever the dims are.
Result<std::vector<std::pair<size_t, PlannedBuffer>>> constants_of(const Manifest& manifest) {
  const Binding binding = corner_of(manifest, Corner::kDefault);
  const Names names = names_in(manifest, binding);
  std::vector<std::pair<size_t, PlannedBuffer>> constants;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    if (manifest.buffers[i].role != Role::kConstant) continue;
    QUERN_TRY(PlannedBuffer planned, plan_buffer(manifest, manifest.buffers[i], names));
    constants.emplace_back(i, std::move(planned));
  }
  return constants;
}

// The same for what another tenant has: a hash is a name, and tells nothing.
Error no_object(std::string_view hash) {
  return not_found(fmt::format("object {}: you have none; put it first", hash));
}

}  // namespace

Result<Deployer::Content> Deployer::content_of(const Manifest& manifest, const Files& files) {
  Content content;
  for (const std::string& path : sources_of(manifest)) {
    const auto file = files.find(path);
    if (file == files.end()) continue;
    const std::string& hash = content.files[path] = sha256(file->second);
    content.pieces.push_back({hash, file->second});
  }
  QUERN_TRY(const auto constants, constants_of(manifest));
  for (const auto& [i, planned] : constants) {
    const BufferDecl& buffer = manifest.buffers[i];
    QUERN_TRY(const auto bytes, constant_bytes(buffer, planned, files));
    const ConstantRecord& record = content.constants[buffer.name] = {sha256(bytes), bytes.size()};
    content.pieces.push_back({record.object, bytes});
  }
  return content;
}

Status Deployer::name_constants(DeployedFunction& function, const std::map<std::string, ConstantRecord>& records) {
  const Manifest& manifest = function.manifest;
  function.constants.resize(manifest.buffers.size());
  QUERN_TRY(const auto constants, constants_of(manifest));
  for (const auto& [i, planned] : constants) {
    const auto record = records.find(manifest.buffers[i].name);
    // An executor reads as much as the plan says.
    if (record == records.end() || record->second.bytes != planned.size_bytes)
      return internal(fmt::format("constant '{}': {} bytes are stored where {} are needed; deploy the function again",
                                  manifest.buffers[i].name, record == records.end() ? 0 : record->second.bytes,
                                  planned.size_bytes));
    function.constants[i] = constant_of(record->second);
    const sched::ObjectNeed need{{function.constants[i]->number}, function.constants[i]->size_bytes};
    if (std::find(function.objects.begin(), function.objects.end(), need) == function.objects.end())
      function.objects.push_back(need);
  }
  return {};
}

ConstantRef Deployer::constant_of(const ConstantRecord& record) {
  ConstantRef constant = constants_.with([&](auto& constants) -> ConstantRef {
    if (constants.size() >= kMostRemembered)
      std::erase_if(constants, [](const auto& item) { return item.second.constant.expired(); });
    Numbered& one = constants[record.object];
    if (ConstantRef known = one.constant.lock()) return known;
    if (one.number == 0) one.number = new_object_number();
    auto made = std::make_shared<const Constant>(Constant{one.number, record.object, record.bytes});
    one.constant = made;
    return made;
  });
  if (tier_) tier_->know(constant);
  return constant;
}

Status Deployer::put_all(const std::vector<Piece>& pieces) {
  std::set<std::string_view> done;
  for (const Piece& piece : pieces)
    if (done.insert(piece.hash).second) QUERN_TRY(objects_.put(piece.hash, piece.bytes));
  return {};
}

// Objects first, then what names them. Writing takes as long as the disk does and holds up nobody: a collection
// meanwhile leaves them alone.
template <class Record>
auto Deployer::put_and_record(const std::vector<Piece>& pieces, Record&& record) {
  state_.with([&](auto&) {
    for (const Piece& piece : pieces) writing_.insert(piece.hash);
  });
  const Status put = put_all(pieces);
  return state_.with([&](auto& state) -> decltype(record(*state)) {
    for (const Piece& piece : pieces) writing_.erase(writing_.find(piece.hash));
    if (!put.ok()) return put.error();
    return record(*state);
  });
}

Status Deployer::put_again(const Content& content) {
  return put_and_record(content.pieces, [](State&) { return Status(); });
}

Result<int64_t> Deployer::store(const DeployedFunction& function, const Content& content) {
  FunctionRecord record;
  record.tenant = function.tenant;
  record.name = function.name;
  record.version = function.version;
  record.created_at = function.created_at;
  record.files = content.files;
  record.constants = content.constants;
  return put_and_record(content.pieces, [&](State& state) -> Result<int64_t> {
    QUERN_TRY(const int64_t order, state.put_function(record));
    QUERN_TRY(state.add_history(function.tenant, function.name, {os::wall_time(), "deployed", function.version}));
    return order;
  });
}

// What an older Quern stored has its constants in files: they are taken out of them once, here.
Status Deployer::take_constants_out(FunctionRecord& record, const Manifest& manifest, const Files& files) {
  QUERN_TRY(const Content content, content_of(manifest, files));
  if (content.constants.empty()) return {};
  record.files = content.files;
  record.constants = content.constants;
  return put_and_record(content.pieces, [&](State& state) { return state.change_objects(record); });
}

// Inside state_.with, and `versions` is all that we hold of them: whoever else does may still need their constants.
void Deployer::leave(const std::vector<DeployedRef>& versions) {
  for (const DeployedRef& version : versions)
    if (version.use_count() > 1) leaving_.push_back(version);
}

// Objects that nobody needs any more leave the disk.
void Deployer::collect() {
  std::vector<DeployedRef> still_used;  // let go of outside the lock
  const auto collected = state_.with([&](auto& state) {
    std::set<std::string> also(writing_.begin(), writing_.end());
    std::erase_if(leaving_, [](const auto& one) { return one.expired(); });
    for (const auto& one : leaving_)
      if (DeployedRef function = one.lock()) {
        for (const ConstantRef& constant : function->constants)
          if (constant) also.insert(constant->hash);
        still_used.push_back(std::move(function));
      }
    return state->collect(also);
  });
  if (!collected.ok()) os::log_warning("state: is not collected: {}", collected.error().text);
}

Result<std::string> Deployer::put_object(const std::string& tenant, std::span<const std::byte> bytes) {
  std::string hash = sha256(bytes);
  QUERN_TRY(put_and_record({{hash, bytes}}, [&](State& state) {
    return state.put_tenant_object(tenant, hash, bytes.size(), os::wall_time());
  }));
  return hash;
}

Result<Bytes> Deployer::get_object(const std::string& tenant, std::string_view hash) const {
  QUERN_TRY(const auto known, state_.with([&](auto& state) { return state->tenant_object(tenant, hash); }));
  if (!known) return no_object(hash);
  return objects_.get(hash);
}

Status Deployer::drop_object(const std::string& tenant, std::string_view hash) {
  QUERN_TRY(state_.with([&](auto& state) -> Status {
    QUERN_TRY(const auto known, state->tenant_object(tenant, hash));
    if (!known) return no_object(hash);
    return state->remove_tenant_object(tenant, hash);
  }));
  collect();
  return {};
}

Result<std::vector<TenantObject>> Deployer::list_objects(const std::string& tenant) const {
  return state_.with([&](auto& state) { return state->tenant_objects(tenant); });
}

Status Deployer::save_vtimes(const std::map<std::string, int64_t>& vtimes) {
  return state_.with([&](auto& state) { return state->put_vtimes(vtimes); });
}

Status Deployer::save_profiles(const ProfileRecords& records) {
  return state_.with([&](auto& state) { return state->put_profiles(records); });
}

}  // namespace quern::daemon
