// SPDX-License-Identifier: Apache-2.0
//
// A frame is the index of its alternative and its fields in order. One `fields` per struct serves both directions: it
// visits every field with a Writer or a Reader, so that the two cannot disagree.
#include "ipc/frames.h"

#include "ipc/fields.h"
#include "ipc/shared_page.h"

namespace quern {

// In the namespace of its struct, by which it is found.
template <class V>
void fields(V& v, Signature& s) {
  v(s.entry);
  v.list(s.arguments, 1024, [&](auto& a) { v(a.name), v(a.type), v(a.space), v(a.is_const), v(a.access); });
  v(s.required_local), v(s.local_memory_bytes), v(s.unsliceable);
}

}  // namespace quern

namespace quern::ipc {
namespace {

constexpr uint32_t kMostBindings = 256, kMostScalars = 4096, kMostReported = 16, kMostSamples = 256;
constexpr uint32_t kMostCores = 1024, kMostWorkers = 1024, kMostEntries = 4096, kMostGroupSizes = 64,
                   kMostHeaders = 256;
constexpr size_t kLongestSource = size_t{16} << 20;

}  // namespace

// Not in the namespace above: they are found by the namespace of their structs.
template <class V>
void fields(V& v, DeviceSpec& s) {
  v(s.driver), v(s.platform), v(s.library), v(s.index);
  v.list(s.cores, kMostCores, [&](int32_t& core) { v(core); });
  v(s.memory_bytes), v(s.in_place), v(s.cache_folder);
}
template <class V>
void fields(V& v, DeviceCaps& c) {
  v(c.driver), v(c.name), v(c.build_key), v(c.memory_bytes), v(c.context_bytes), v(c.max_allocation_bytes);
  v(c.local_memory_bytes), v(c.units), v(c.max_group_size), v(c.max_group_sizes), v(c.unified_memory);
  v(c.alignment_bytes), v(c.launch_offset), v(c.partitions), v(c.worker_classes), v(c.overlap);
  v(c.fault_scope), v(c.timestamps);
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
  v(l.object), v(l.size_bytes), v(l.offset), v(l.memory_bytes);
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
void fields(V& v, Workers& w) {
  v.list(w.workers, kMostWorkers, [&](int32_t& worker) { v(worker); });
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
  v.list(d.devices, 256, [&](auto& f) {
    v(f.index), v(f.name), v(f.kind), v(f.units), v(f.memory_bytes), v(f.platform), v(f.version);
    v(f.unsliceable), v(f.undivided), v(f.clock), v(f.classes), v(f.in_place), v(f.error);
  });
}
template <class V>
void fields(V& v, Dropped& d) {
  v(d.object);
}
template <class V>
void fields(V&, AskFlight&) {}
template <class V>
void fields(V& v, Flight& f) {
  v.list(f.launches, kMostLanes, [&](auto& l) { v(l.run), v(l.number), v(l.since_ns), v(l.used_ns); });
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
void fields(V& v, BuildFrame& b) {
  fields(v, b.device), v(b.text, kLongestSource), v(b.options);
  v.list(b.headers, kMostHeaders, [&](auto& header) { v(header.first), v(header.second, kLongestSource); });
  v.list(b.group_sizes, kMostGroupSizes, [&](Size3& sizes) { v(sizes); });
}
template <class V>
void fields(V& v, RunCommand& r) {
  v(r.run), v(r.plan), v(r.lane_bytes), v(r.profile), v(r.units), v(r.first_unit);
  v.list(r.bindings, kMostBindings, [&](Binding& b) { v(b.segment), v(b.offset), v(b.object); });
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
void fields(V&, TrimCommand&) {}
template <class V>
void fields(V& v, RunEnded& r) {
  v(r.run), v(r.ok), v(r.stopped), v(r.no_room), v(r.ends_executor), v(r.code), v(r.text), v(r.taken_ns);
  v(r.started_ns), v(r.ended_ns), v(r.reported_ns);
  v(r.waited_ns), v(r.device_time_ns);
  v.list(r.rounds, kMostReported, [&](uint64_t& rounds) { v(rounds); });
  v.list(r.kernels, RunEnded::kMostKernels, [&](auto& kernel) { v(kernel.launches), v(kernel.time_ns); });
}
template <class V>
void fields(V&, LaneTrimmed&) {}
template <class V>
void fields(V& v, WorkReady& w) {
  v(w.at_ns);
  v.list(w.kernels, WorkReady::kMost, [&](auto& k) { v(k.identity), v(k.groups), v(k.time_ns), v(k.sliceable); });
  v(w.pauses);
}
template <class V>
void fields(V& v, GapBegun& g) {
  v(g.at_ns), v(g.after), v(g.started_ns);
}
template <class V>
void fields(V& v, DeviceUsed& u) {
  v(u.time_ns), v(u.launches), v(u.past_gate);
  v.list(u.samples, kMostSamples, [&](auto& s) { v(s.kernel), v(s.groups), v(s.time_ns), v(s.is_undisturbed); });
  v.list(u.gaps, kMostSamples, [&](auto& g) { v(g.after), v(g.time_ns); });
}
template <class V>
void fields(V& v, Traced& t) {
  v(t.run);
  v.list(t.spans, kMostSamples,
         [&](auto& s) { v(s.launch), v(s.first), v(s.parts), v(s.of), v(s.start_ns), v(s.end_ns); });
}

namespace {

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

// Index and type must be of one alternative, or this does not compile.
template <size_t I>
void write_event(const std::variant_alternative_t<I, LaneEvent>& event, ByteWriter& into) {
  into.put(static_cast<uint8_t>(I));
  write(event, into);
}

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
  if (const auto* discovered = std::get_if<Discovered>(&frame))
    for (const auto& found : discovered->devices)
      if (found.kind > Discovered::Found::Kind::kOther) return invalid("frame: has an unknown kind of device");
  return frame;
}

Bytes encode(const BuildFrame& build) { return written(build); }
Result<BuildFrame> decode_build(std::span<const std::byte> bytes) { return read_whole<BuildFrame>(bytes, "build"); }

Bytes encode(std::span<const Signature> signatures) {
  ByteWriter writer;
  writer.put(static_cast<uint32_t>(signatures.size()));
  for (const Signature& signature : signatures) write(signature, writer);
  return writer.take();
}

Result<std::vector<Signature>> decode_signatures(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  std::vector<Signature> signatures;
  fields_of.list(signatures, kMostEntries, [&](Signature& signature) { fields(fields_of, signature); });
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

void encode(const RunEnded& ended, ByteWriter& into) { write_event<0>(ended, into); }
void encode(const LaneTrimmed& trimmed, ByteWriter& into) { write_event<1>(trimmed, into); }
void encode(const WorkReady& ready, ByteWriter& into) { write_event<2>(ready, into); }
void encode(const GapBegun& gap, ByteWriter& into) { write_event<3>(gap, into); }
void encode(const DeviceUsed& used, ByteWriter& into) { write_event<4>(used, into); }
void encode(const Traced& traced, ByteWriter& into) { write_event<5>(traced, into); }

Result<LaneEvent> decode_lane_event(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  LaneEvent event;
  if (!read_alternative(reader.get<uint8_t>(), fields_of, event) || !reader.ok() || !reader.at_end())
    return invalid("event: is damaged");
  if (const auto* ended = std::get_if<RunEnded>(&event); ended && !is_valid(ended->code))
    return invalid("event: has an unknown code");
  return event;
}

}  // namespace quern::ipc
