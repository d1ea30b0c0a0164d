// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/pocl_binary.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "hal/opencl/envelope.h"

namespace quern::hal::opencl {
namespace {

// A program of one kernel with one argument, as PoCL 3.1 writes it.
struct Sample {
  Bytes metadata, code = Bytes(300, std::byte{0x7f}), bitcode = Bytes(50, std::byte{0x42});
  PoclBinary binary;

  Sample() {
    ByteWriter writer;
    writer.put(uint32_t{1});  // arguments
    writer.put(uint32_t{1});  // local arrays
    for (uint64_t size : {0, 0, 0, 64}) writer.put(uint64_t{size});
    writer.put_text("");
    writer.put(uint64_t{31});
    const size_t before = writer.bytes().size();
    writer.put(uint32_t{0x11a3});
    writer.put(uint32_t{0x119b});
    writer.put(uint64_t{0});
    writer.put(uint32_t{1});
    writer.put(uint32_t{8});
    writer.put_text("out");
    writer.put_text("float*");
    const auto argument_bytes = static_cast<uint32_t>(writer.bytes().size() - before);
    metadata = writer.take();
    binary = {0x1234, 9, 4, "NB/AFNPOPGECAIKBHJIBCKLBEAKMLNKAHIOMECNG", {{"program.bc", bitcode}}, {}};
    binary.kernels.push_back({"mill", metadata, argument_bytes, {}});
    for (const char* variant : {"0-0-0", "64-1-1", "8-4-2", "64-1-1-goffs0-smallgrid"})
      binary.kernels[0].files.push_back({std::string("mill/") + variant + "/mill.so", code});
  }
};

TEST(PoclBinary, ComesBackAsItWas) {
  Sample sample;
  const Bytes bytes = write_pocl(sample.binary);
  auto parsed = parse_pocl(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_EQ(write_pocl(*parsed), bytes);
  EXPECT_EQ(parsed->kernels.at(0).files.size(), 4u);
}

TEST(PoclBinary, StrippedHasNoBitcodeAndOnlyWhatIsWanted) {
  Sample sample;
  const Size3 sizes[] = {{8, 4, 2}, {0, 0, 0}, {8, 4, 2}};
  ASSERT_TRUE(strip_pocl(sample.binary, sizes).ok());
  const Bytes bytes = write_pocl(sample.binary);
  auto parsed = parse_pocl(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_NE(parsed->roots.at(0).name, "program.bc");
  EXPECT_FALSE(parsed->roots.at(0).content.empty());
  ASSERT_EQ(parsed->kernels.at(0).files.size(), 2u);
  EXPECT_EQ(parsed->kernels[0].files[0].name, "mill/0-0-0/mill.so");
  EXPECT_EQ(parsed->kernels[0].files[1].name, "mill/8-4-2/mill.so");
  const Size3 missing[] = {{32, 1, 1}};
  EXPECT_FALSE(strip_pocl(sample.binary, missing).ok());
}

TEST(PoclBinary, NamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"../mill.so", "mill/../../mill.so", "mill/0-0-0/../mill.so", "/etc/passwd",
                           "mill/0-0-0/a.so", "other/0-0-0/other.so", "mill/0-0/mill.so", "mill//mill.so",
                           "mill/0-0-0-x/mill.so", "mill/-0-0/mill.so", "mill/0-0-0/sub/mill.so", "mill.so", ""}) {
    Sample sample;
    sample.binary.kernels[0].files[0].name = name;
    EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok()) << name;
  }
  for (const char* name : {"..", "../x", "a/b", "", ".hidden"}) {
    Sample sample;
    sample.binary.roots[0].name = name;
    EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok()) << name;
  }
  for (const char* name : {"..", "a/b", "", "mill.so", "mi ll"}) {
    Sample sample;
    sample.binary.kernels[0].name = name;
    sample.binary.kernels[0].files.clear();
    EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok()) << name;
  }
  for (const char* folder : {"../AFNPOPGECAIKBHJIBCKLBEAKMLNKAHIOMECNG", "NB/../../GECAIKBHJIBCKLBEAKMLNKAHIOMECNG",
                             "NB/AFNPOPGECAIKBHJIBCKLBEAKMLNKAHIOMECN/", "nb/AFNPOPGECAIKBHJIBCKLBEAKMLNKAHIOMECNG"}) {
    Sample sample;
    sample.binary.folder = folder;
    EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok()) << folder;
  }
}

TEST(PoclBinary, EmptyFilesAndOtherVersionsAreRefused) {
  Sample sample;
  sample.binary.kernels[0].files[0].content = {};
  EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok());
  sample = {};
  sample.binary.version = 8;
  EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok());
  sample = {};
  sample.binary.kernels.clear();
  EXPECT_FALSE(parse_pocl(write_pocl(sample.binary)).ok());
}

TEST(PoclBinary, DamageIsRefusedOrHarmless) {
  Sample sample;
  const Bytes bytes = write_pocl(sample.binary);
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_FALSE(parse_pocl(std::span(bytes).first(i)).ok()) << i;
  Prng prng(7);
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = bytes;
    for (uint64_t n = 1 + prng.below(3); n > 0; --n) damaged[prng.below(damaged.size())] = std::byte(prng.below(256));
    // What is still taken is whole: every byte is accounted for.
    const auto parsed = parse_pocl(damaged);
    EXPECT_TRUE(!parsed.ok() || write_pocl(*parsed) == damaged);
  }
}

TEST(Envelope, ComesBackAsItWasAndOnlyForItsDevice) {
  const Bytes payload(100, std::byte{1});
  Envelope envelope;
  envelope.kind = Envelope::Kind::kPocl;
  envelope.build_key = "opencl/1|x";
  envelope.group_sizes = {{64, 1, 1}};
  envelope.entries = {{"mill", {{"out", "float*", AddressSpace::kGlobal, true}}, {4, 2, 1}, 64, "prints"}};
  envelope.payload = payload;
  const Bytes bytes = write_envelope(envelope);
  auto back = read_envelope(bytes, "opencl/1|x");
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->group_sizes, envelope.group_sizes);
  EXPECT_EQ(back->entries.at(0).arguments, envelope.entries[0].arguments);
  EXPECT_EQ(back->entries[0].required_group_size, (Size3{4, 2, 1}));
  EXPECT_EQ(back->entries[0].unsliceable, "prints");
  EXPECT_EQ(Bytes(back->payload.begin(), back->payload.end()), payload);
  EXPECT_FALSE(read_envelope(bytes, "opencl/1|y").ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= std::byte{1};
    EXPECT_FALSE(read_envelope(damaged, "opencl/1|x").ok()) << i;
    EXPECT_FALSE(read_envelope(std::span(bytes).first(i), "opencl/1|x").ok()) << i;
  }
}

}  // namespace
}  // namespace quern::hal::opencl
