// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "daemon/deployer.h"
#include "function/constant.h"
#include "function/plan_builder.h"
#include "os/clock.h"
#include "os/file.h"
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

Result<Deployer::Content> Deployer::content_of(const Manifest& manifest, const Folder& folder) {
  Content content;
  for (const std::string& path : sources_of(manifest)) {
    const auto file = folder.files.find(path);
    if (file == folder.files.end()) continue;
    const std::string& hash = content.files[path] = sha256(file->second);
    content.pieces.push_back({hash, file->second});
  }
  QUERN_TRY(const auto constants, constants_of(manifest));
  for (const auto& [i, planned] : constants) {
    const BufferDecl& buffer = manifest.buffers[i];
    QUERN_TRY(const ConstantElements elements, constant_elements(buffer, planned, folder.files));
    ConstantRecord& record = content.constants[buffer.name];
    if (elements.slice) {
      record = {elements.slice->sha256, elements.slice->size_bytes};
      content.pieces.push_back({record.object, {}, folder.receiver->find(record.object)});
      QUERN_CHECK(content.pieces.back().writer, "a large file has elements that nobody wrote");
    } else {
      record = {sha256(elements.bytes), elements.bytes.size()};
      content.pieces.push_back({record.object, elements.bytes});
    }
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
    if (planned.size_bytes == 0) continue;  // nothing to bring anywhere
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
    if (done.insert(piece.hash).second)
      QUERN_TRY(piece.writer ? piece.writer->keep() : objects_.put(piece.hash, piece.bytes));
  return {};
}

Status Deployer::put_again(const std::string& tenant, const Content& content) {
  return put_and_record(tenant, content.pieces, [](State&) { return Status(); });
}

// What an older Quern stored has its constants in files: they are taken out of them once, here.
Status Deployer::take_constants_out(FunctionRecord& record, const Manifest& manifest, const Files& files) {
  QUERN_TRY(const Content content, content_of(manifest, {files}));
  if (content.constants.empty()) return {};
  record.files = content.files;
  record.constants = content.constants;
  return put_and_record(StateThread::kServer, content.pieces,
                        [&](State& state) { return state.change_objects(record); });
}

// On the thread of the state, and `versions` is all that we hold of them: whoever else does may still need their
// constants.
void Deployer::leave(const std::vector<DeployedRef>& versions) {
  for (const DeployedRef& version : versions)
    if (version.use_count() > 1) leaving_.push_back(version);
}

// Objects that nobody needs any more leave the disk: their names now, their bytes when there is time. The whole store
// is looked through at the start alone: all tenants share this thread, and a removal takes as long as what it removes.
void Deployer::collect(State& state, Collected what) {
  std::vector<DeployedRef> still_used;
  std::set<std::string> also(writing_.begin(), writing_.end());
  std::erase_if(leaving_, [](const auto& one) { return one.expired(); });
  for (const auto& one : leaving_)
    if (DeployedRef function = one.lock()) {
      for (const ConstantRef& constant : function->constants)
        if (constant) also.insert(constant->hash);
      still_used.push_back(std::move(function));
    }
  auto collected = what == Collected::kAll ? state.collect(also) : state.collect_released(also);
  if (!collected.ok()) return os::log_warning("state: is not collected: {}", collected.error().text);
  if (collected->empty()) return;
  intake_.run([paths = *std::move(collected)] {
    for (const std::string& path : paths) os::remove_file(path);
  });
}

void Deployer::tell_storage(State& state, const std::string& tenant) {
  if (const auto stored = state.stored(tenant); stored.ok()) storage_.set_stored(tenant, *stored);
}

Result<std::unique_ptr<Upload>> Deployer::begin_object(const std::string& tenant, uint64_t size_bytes) {
  QUERN_TRY(auto room, storage_.take(tenant, size_bytes, true));
  auto receiver = std::make_unique<ObjectReceiver>(objects_);
  receiver->room = std::move(room);
  return intake_.begin(std::move(receiver));
}

Result<ConstantRecord> Deployer::put_object(const std::string& tenant, std::unique_ptr<Upload> upload) {
  const auto receiver = Intake::finish<ObjectReceiver>(std::move(upload));
  ObjectWriter& writer = receiver->writer;
  const Status put = put_and_record(tenant, {{writer.hash(), {}, &writer}}, [&](State& state) -> Status {
    QUERN_TRY(state.put_tenant_object(tenant, writer.hash(), writer.size_bytes(), os::wall_time()));
    tell_storage(state, tenant);
    return {};
  });
  if (!put.ok()) return told(put.error());
  return ConstantRecord{writer.hash(), writer.size_bytes()};
}

Result<uint64_t> Deployer::object_bytes(const std::string& tenant, std::string_view hash) {
  const auto known = state_.ask(tenant, [&](State& state) { return state.tenant_object(tenant, hash); });
  if (!known.ok()) return told(known.error());
  if (!*known) return no_object(hash);
  return (*known)->bytes;
}

Status Deployer::copy_object(std::string_view hash, uint64_t size_bytes, const os::Fd& into) {
  const Status copied = objects_.copy_to(hash, size_bytes, into);
  return copied.ok() ? Status() : Status(told(copied.error()));
}

Status Deployer::drop_object(const std::string& tenant, std::string_view hash) {
  const Status dropped = state_.ask(tenant, [&](State& state) -> Status {
    QUERN_TRY(const auto known, state.tenant_object(tenant, hash));
    if (!known) return no_object(hash);
    QUERN_TRY(state.remove_tenant_object(tenant, hash));
    collect(state, Collected::kReleased);
    tell_storage(state, tenant);
    return {};
  });
  if (!dropped.ok()) return told(dropped.error());
  return {};
}

Result<std::vector<TenantObject>> Deployer::list_objects(const std::string& tenant) {
  return told(state_.ask(tenant, [&](State& state) { return state.tenant_objects(tenant); }));
}

Status Deployer::save_vtimes(const std::map<std::string, int64_t>& vtimes) {
  return state_.ask(StateThread::kServer, [&](State& state) { return state.put_vtimes(vtimes); });
}

Status Deployer::save_profiles(const ProfileRecords& records) {
  return state_.ask(StateThread::kServer, [&](State& state) { return state.put_profiles(records); });
}

}  // namespace quern::daemon
