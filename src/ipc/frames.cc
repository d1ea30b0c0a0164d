// SPDX-License-Identifier: Apache-2.0
//
// A frame is the index of its alternative and its fields in order. One `fields` per struct serves both directions: it
// visits every field with a Writer or a Reader, so that the two cannot disagree.
#include "ipc/frames.h"

#include <type_traits>

namespace quern::ipc {
namespace {

constexpr uint32_t kMostBuffers = 256, kMostLaunches = 4096, kMostArguments = 64, kMostScalars = 4096;
constexpr uint32_t kMostCores = 1024, kMostWorkers = 1024, kMostEntries = 4096, kMostGroupSizes = 64;
constexpr size_t kLongestText = 16 * 1024, kLongestSource = size_t{16} << 20;

struct Writer {
  ByteWriter& to;
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& value) { to.put(value); }
  void operator()(std::string& text, size_t = kLongestText) { to.put_text(text); }
  void operator()(Size3& sizes) {
    for (uint64_t& size : sizes) to.put(size);
  }
  template <class T, class F>
  void list(std::vector<T>& items, uint32_t, F each) {
    to.put(static_cast<uint32_t>(items.size()));
    for (T& item : items) each(item);
  }
};

struct Reader {
  ByteReader& from;
  void operator()(bool& value) { value = from.get<uint8_t>() != 0; }  // any other byte in a bool would be undefined
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& value) { value = from.get<T>(); }
  void operator()(std::string& text, size_t longest = kLongestText) { text = from.get_text(longest); }
  void operator()(Size3& sizes) {
    for (uint64_t& size : sizes) size = from.get<uint64_t>();
  }
  template <class T, class F>
  void list(std::vector<T>& items, uint32_t most, F each) {
    items.resize(from.get_count(most));
    for (T& item : items) {
      each(item);
      if (!from.ok()) break;
    }
  }
};

template <class V>
void fields(V& v, DeviceSpec& s) {
  v(s.driver), v(s.index), v.list(s.cores, kMostCores, [&](int32_t& core) { v(core); });
  v(s.memory_bytes), v(s.in_place), v(s.cache_folder);
}
template <class V>
void fields(V& v, DeviceCaps& c) {
  v(c.driver), v(c.name), v(c.build_key), v(c.memory_bytes), v(c.context_bytes), v(c.max_allocation_bytes);
  v(c.local_memory_bytes), v(c.units), v(c.max_group_size), v(c.max_group_sizes), v(c.unified_memory);
  v(c.launch_offset), v(c.partitions), v(c.overlap), v(c.fault_scope), v(c.timestamps);
}
template <class V>
void fields(V& v, Start& s) {
  fields(v, s.device), v(s.lanes);
}
template <class V>
void fields(V& v, MapSegment& m) {
  v(m.segment), v(m.direction), v(m.size_bytes);
}
template <class V>
void fields(V& v, UnmapSegment& m) {
  v(m.segment);
}
template <class V>
void fields(V& v, LoadObject& l) {
  v(l.object), v(l.size_bytes);
}
template <class V>
void fields(V& v, DropObject& d) {
  v(d.object);
}
template <class V>
void fields(V& v, LoadProgram& l) {
  v(l.program), v(l.size_bytes);
}
template <class V>
void fields(V& v, DropProgram& d) {
  v(d.program);
}
template <class V>
void fields(V& v, PreparePlan& p) {
  v(p.plan), v(p.size_bytes);
}
template <class V>
void fields(V& v, DropPlan& d) {
  v(d.plan);
}
template <class V>
void fields(V& v, Hello& h) {
  fields(v, h.caps), v.list(h.workers, kMostWorkers, [&](int32_t& worker) { v(worker); });
}
template <class V>
void fields(V& v, Loaded& l) {
  v(l.kind), v(l.id), v(l.ok), v(l.code), v(l.text);
}
template <class V>
void fields(V& v, Discover& d) {
  v(d.driver);
}
template <class V>
void fields(V& v, Discovered& d) {
  v.list(d.devices, 256, [&](auto& f) { v(f.index), v(f.name), v(f.is_gpu), v(f.units), v(f.memory_bytes); });
}
template <class V>
void fields(V& v, Build& b) {
  v(b.size_bytes);
}
template <class V>
void fields(V& v, Built& b) {
  v(b.ok), v(b.code), v(b.build_key), v(b.size_bytes), v(b.details_bytes);
}
template <class V>
void fields(V& v, PlanFrame& p) {
  v(p.program);
  v.list(p.buffers, kMostBuffers, [&](auto& b) { v(b.role), v(b.zero), v(b.size_bytes), v(b.object); });
  v.list(p.scalars, kMostScalars, [&](Dtype& dtype) { v(dtype); });
  v.list(p.launches, kMostLaunches, [&](auto& launch) {
    v(launch.entry), v(launch.dimensions), v(launch.global), v(launch.local);
    v.list(launch.arguments, kMostArguments, [&](auto& a) { v(a.kind), v(a.index), v(a.local_bytes); });
  });
}
template <class V>
void fields(V& v, BuildFrame& b) {
  fields(v, b.device), v(b.text, kLongestSource), v(b.options);
  v.list(b.group_sizes, kMostGroupSizes, [&](Size3& sizes) { v(sizes); });
}
template <class V>
void fields(V& v, SignatureFrame& s) {
  v(s.entry);
  v.list(s.arguments, 1024, [&](auto& a) { v(a.name), v(a.type), v(a.space), v(a.is_const); });
  v(s.required_local), v(s.local_memory_bytes);
}
template <class V>
void fields(V& v, RunCommand& r) {
  v(r.run), v(r.plan);
  v.list(r.bindings, kMostBuffers, [&](Binding& b) { v(b.segment), v(b.offset); });
  v.list(r.scalars, kMostScalars, [&](uint64_t& bits) { v(bits); });
}
template <class V>
void fields(V& v, StopCommand& s) {
  v(s.run);
}
template <class V>
void fields(V& v, ForgetPlanCommand& f) {
  v(f.plan);
}
template <class V>
void fields(V& v, ForgetSegmentCommand& f) {
  v(f.segment);
}
template <class V>
void fields(V& v, RunEnded& r) {
  v(r.run), v(r.ok), v(r.stopped), v(r.code), v(r.text), v(r.taken_ns), v(r.started_ns), v(r.ended_ns),
      v(r.reported_ns);
  v(r.device_time_ns);
}

// `fields` takes its struct by reference for both directions; a Writer never changes it.
template <class T>
void write(const T& value, ByteWriter& into) {
  Writer writer{into};
  fields(writer, const_cast<T&>(value));
}
template <class T>
Bytes written(const T& value) {
  ByteWriter writer;
  write(value, writer);
  return writer.take();
}

template <class T>
Result<T> read_whole(std::span<const std::byte> bytes, const char* what) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  T value;
  fields(fields_of, value);
  if (!reader.ok() || !reader.at_end()) return invalid(std::string(what) + ": is damaged");
  return value;
}

// Reads alternative number `tag` of a variant; keeps the alternative's memory where it is the same again.
template <class Variant, size_t I = 0>
bool read_alternative(size_t tag, Reader& reader, Variant& into) {
  if constexpr (I < std::variant_size_v<Variant>) {
    if (tag != I) return read_alternative<Variant, I + 1>(tag, reader, into);
    if (into.index() != I) into.template emplace<I>();
    fields(reader, std::get<I>(into));
    return true;
  } else {
    return false;
  }
}

bool is_valid(ErrorCode code) { return code <= ErrorCode::kInternal; }

}  // namespace

Bytes encode(const Frame& frame) {
  ByteWriter writer;
  writer.put(static_cast<uint8_t>(frame.index()));
  std::visit([&](const auto& value) { write(value, writer); }, frame);
  return writer.take();
}

Result<Frame> decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  Frame frame;
  if (!read_alternative(reader.get<uint8_t>(), fields_of, frame) || !reader.ok() || !reader.at_end())
    return invalid("frame: is damaged");
  if (const auto* loaded = std::get_if<Loaded>(&frame))
    if (!is_valid(loaded->code) || loaded->kind > Loaded::Kind::kPlan) return invalid("frame: has an unknown code");
  if (const auto* built = std::get_if<Built>(&frame))
    if (!is_valid(built->code)) return invalid("frame: has an unknown code");
  return frame;
}

Bytes encode(const PlanFrame& plan) { return written(plan); }

Result<PlanFrame> decode_plan(std::span<const std::byte> bytes) {
  QUERN_TRY(PlanFrame plan, read_whole<PlanFrame>(bytes, "plan"));
  using Kind = PlanFrame::Argument::Kind;
  for (const auto& buffer : plan.buffers)
    if (buffer.role > PlanFrame::Role::kScratch || buffer.size_bytes == 0) return invalid("plan: has a bad buffer");
  for (Dtype dtype : plan.scalars)
    if (static_cast<int>(dtype) >= kDtypes) return invalid("plan: has a bad dtype");
  for (const auto& launch : plan.launches) {
    if (launch.dimensions < 1 || launch.dimensions > 3) return invalid("plan: has a launch of no dimension");
    for (const auto& argument : launch.arguments) {
      const size_t most = argument.kind == Kind::kBuffer ? plan.buffers.size() : plan.scalars.size();
      if (argument.kind > Kind::kLocal || (argument.kind != Kind::kLocal && argument.index >= most))
        return invalid("plan: has an argument out of range");
    }
  }
  return plan;
}

Bytes encode(const BuildFrame& build) { return written(build); }
Result<BuildFrame> decode_build(std::span<const std::byte> bytes) { return read_whole<BuildFrame>(bytes, "build"); }

Bytes encode(std::span<const SignatureFrame> signatures) {
  ByteWriter writer;
  writer.put(static_cast<uint32_t>(signatures.size()));
  for (const SignatureFrame& signature : signatures) write(signature, writer);
  return writer.take();
}

Result<std::vector<SignatureFrame>> decode_signatures(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  std::vector<SignatureFrame> signatures;
  fields_of.list(signatures, kMostEntries, [&](SignatureFrame& signature) { fields(fields_of, signature); });
  if (!reader.ok() || !reader.at_end()) return invalid("signatures: are damaged");
  return signatures;
}

void encode(const Command& command, ByteWriter& into) {
  into.put(static_cast<uint8_t>(command.index()));
  std::visit([&](const auto& value) { write(value, into); }, command);
}

Status decode(std::span<const std::byte> bytes, Command& into) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  if (!read_alternative(reader.get<uint8_t>(), fields_of, into) || !reader.ok() || !reader.at_end())
    return invalid("command: is damaged");
  return {};
}

void encode(const RunEnded& ended, ByteWriter& into) { write(ended, into); }

Result<RunEnded> decode_run_ended(std::span<const std::byte> bytes) {
  QUERN_TRY(RunEnded ended, read_whole<RunEnded>(bytes, "event"));
  if (!is_valid(ended.code)) return invalid("event: has an unknown code");
  return ended;
}

}  // namespace quern::ipc
