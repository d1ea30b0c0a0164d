// SPDX-License-Identifier: Apache-2.0
#include "function/tar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace quern {
namespace {

// One header block as other programs write it, with a right checksum.
struct Entry {
  std::string name;
  char kind = '0';
  std::string content = {};
  std::string magic = std::string("ustar\00000", 8);
  std::string prefix = {};
  std::string size = {};  // the field as it is, if the content's own size is not wanted
};

std::string block_of(const Entry& entry) {
  std::string block(512, '\0');
  auto put = [&](size_t at, std::string_view text) { block.replace(at, text.size(), text); };
  put(0, entry.name.substr(0, 100));
  put(100, "0000644");
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", entry.content.size());
  put(124, entry.size.empty() ? std::string_view(size) : std::string_view(entry.size));
  block[156] = entry.kind;
  put(257, entry.magic);
  put(345, entry.prefix);
  put(148, "        ");
  unsigned sum = 0;
  for (char c : block) sum += static_cast<unsigned char>(c);
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  put(148, std::string(checksum, 7));
  std::string padded = entry.content;
  padded.resize((padded.size() + 511) / 512 * 512);
  return block + padded;
}

std::string tar_of(std::initializer_list<Entry> entries) {
  std::string tar;
  for (const Entry& entry : entries) tar += block_of(entry);
  return tar + std::string(1024, '\0');
}

// What a stream gives that gets it in pieces of `size` bytes.
class PiecewiseSink : public TarStream::Sink {
 public:
  Status begin_file(const std::string& name, uint64_t size_bytes) override {
    name_ = name;
    size_bytes_ = size_bytes;
    files[name];
    return {};
  }
  Status add_bytes(std::span<const std::byte> bytes) override {
    files[name_].insert(files[name_].end(), bytes.begin(), bytes.end());
    return {};
  }
  Status end_file() override {
    EXPECT_EQ(files[name_].size(), size_bytes_);
    return {};
  }
  void skip_link(const std::string& name) override { files.links.insert(name); }
  Files files;

 private:
  std::string name_;
  uint64_t size_bytes_ = 0;
};

Result<Files> read_in_pieces(const std::string& tar, size_t size) {
  PiecewiseSink sink;
  TarStream stream(sink);
  for (size_t at = 0; at < tar.size(); at += size)
    QUERN_TRY(stream.add(as_bytes_of(tar).subspan(at).first(std::min(size, tar.size() - at))));
  QUERN_TRY(stream.finish());
  return std::move(sink.files);
}

// Whole, and in pieces: the same comes of it.
Result<Files> read(const std::string& tar) {
  auto whole = read_tar(as_bytes_of(tar));
  for (const size_t size : {size_t{1}, size_t{500}, size_t{513}}) {
    const auto pieces = read_in_pieces(tar, size);
    EXPECT_EQ(pieces.ok(), whole.ok());
    if (pieces.ok()) {
      EXPECT_EQ(*pieces, *whole);
      EXPECT_EQ(pieces->links, whole->links);
    } else {
      EXPECT_EQ(pieces.error().text, whole.error().text);
    }
  }
  return whole;
}

std::string problem(std::initializer_list<Entry> entries) {
  auto files = read(tar_of(entries));
  return files.ok() ? "" : files.error().text;
}

TEST(Tar, ReadsBackWhatItWrote) {
  Files files = {{"function.yaml", bytes_of("api: quern/v1\n")},
                 {"empty", {}},
                 {"data/w.bin", Bytes(512)},
                 {"data/v.bin", Bytes(513, std::byte{7})},
                 {std::string(99, 'a') + "b", bytes_of("100 bytes of name")},
                 {std::string(90, 'a') + "/" + std::string(300, 'b'), bytes_of("long")}};
  auto tar = write_tar(files);
  ASSERT_TRUE(tar.ok());
  EXPECT_EQ(tar->size() % 512, 0u);
  auto again = read_tar(*tar);
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, files);
  EXPECT_EQ(*write_tar(*again), *tar) << "the same files always give the same bytes";
}

TEST(Tar, WritesOnlyPlainNames) {
  for (std::string name : {"", ".", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\nb"})
    EXPECT_FALSE(write_tar({{name, {}}}).ok()) << name;
}

TEST(Tar, ReadsWhatOtherProgramsWrite) {
  auto files = read(tar_of(
      {{"./", '5', ""},
       {"./function.yaml", '0', "yaml"},
       {"old", '\0', "old"},
       {"folder/", '\0', ""},
       {"name", '0', "prefixed", std::string("ustar\00000", 8), "some/prefix"},
       {"gnu", '0', "gnu", "ustar  ", "not a prefix"},
       {"././@LongLink", 'L', std::string("long/") + std::string(120, 'x') + '\0'},
       {"cut", '0', "gnu long"},
       {"pax_global", 'g', "19 comment=nothing\n"},
       {"pax", 'x', "19 path=from/pax\xc3\xa9\n11 mtime=0\n"},
       {"cut2", '0', "pax long"},
       {"base256", '0', "12345", std::string("ustar\00000", 8), "", std::string("\x80\0\0\0\0\0\0\0\0\0\0\x05", 12)}}));
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->size(), 7u);
  EXPECT_EQ(as_text(files->at("function.yaml")), "yaml");
  EXPECT_EQ(as_text(files->at("old")), "old");
  EXPECT_EQ(as_text(files->at("some/prefix/name")), "prefixed");
  EXPECT_EQ(as_text(files->at("gnu")), "gnu");
  EXPECT_EQ(as_text(files->at("long/" + std::string(120, 'x'))), "gnu long");
  EXPECT_EQ(as_text(files->at("from/pax\xc3\xa9")), "pax long");
  EXPECT_EQ(as_text(files->at("base256")), "12345");
}

TEST(Tar, ALongNameIsForOneFileOnly) {
  auto files = read(tar_of({{"pax", 'x', "10 path=a\n"}, {"folder", '5', ""}, {"b", '0', "b"}}));
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->contains("b"));
  EXPECT_EQ(files->size(), 1u);
}

TEST(Tar, RefusesWhatLeadsOut) {
  EXPECT_NE(problem({{"/etc/passwd", '0', ""}}).find("absolute"), std::string::npos);
  EXPECT_NE(problem({{"../a", '0', ""}}).find("'..'"), std::string::npos);
  EXPECT_NE(problem({{"a/../../b", '0', ""}}).find("'..'"), std::string::npos);
  EXPECT_NE(problem({{"a/..", '0', ""}}).find("'..'"), std::string::npos);
  EXPECT_NE(problem({{"pax", 'x', "14 path=/x/y\n"}, {"a", '0', ""}}), "");
  EXPECT_NE(problem({{"pax", 'x', "13 path=../x\n"}, {"a", '0', ""}}).find("'..'"), std::string::npos);
  EXPECT_NE(problem({{"l", 'L', std::string("../x\0", 5)}, {"a", '0', ""}}).find("'..'"), std::string::npos);
  for (char kind : {'3', '4', '6', 'S', 'M', 'Z'})
    EXPECT_NE(problem({{"odd", kind, ""}}).find("no regular file"), std::string::npos) << kind;
  EXPECT_NE(problem({{"a\nb", '0', ""}}).find("control"), std::string::npos);
  EXPECT_NE(problem({{".", '0', ""}}).find("no name"), std::string::npos);
  EXPECT_NE(problem({{"", '0', ""}}).find("no name"), std::string::npos);
}

TEST(Tar, PassesOverLinks) {
  for (const char kind : {'1', '2'}) {
    const auto files = read(tar_of({{"a", '0', "1"},
                                    {"./lib/link", kind, ""},
                                    {"b", '0', "2"},
                                    {"long", 'L', std::string(120, 'x') + '\0'},
                                    {"cut", kind, "content that belongs to no file"},
                                    {"c", '0', "3"}}));
    ASSERT_TRUE(files.ok()) << files.error().text;
    EXPECT_EQ(*files, (Files{{"a", bytes_of("1")}, {"b", bytes_of("2")}, {"c", bytes_of("3")}}));
    EXPECT_EQ(files->links, (std::set<std::string, std::less<>>{"lib/link", std::string(120, 'x')}));
    // Their names are held against the same rules as those of files.
    for (const std::string name : {"/etc/passwd", "../a", "a/../../b", "a\nb", ""})
      EXPECT_NE(problem({{name, kind, ""}}), "") << name;
    EXPECT_NE(problem({{"a", kind, ""}, {"a", '0', "1"}}).find("comes twice"), std::string::npos);
    EXPECT_NE(problem({{"a", kind, ""}, {"a/b", '0', "1"}}).find("within a file"), std::string::npos);
    std::string many;
    for (size_t i = 0; i <= kMostFiles; ++i) many += block_of({"f" + std::to_string(i), kind});
    EXPECT_NE(read(many + std::string(1024, '\0')).error().text.find("more than 4096 files"), std::string::npos);
  }
}

TEST(Tar, ALinkIsRefusedWhereTheManifestNamesIt) {
  const std::string manifest = "programs: {opencl: {files: [lib/a.cl], headers: [a.h]}}\nbuffers: {w: {file: w.bin}}\n";
  Files files = {{"function.yaml", bytes_of(manifest)}};
  files.links = {"other", "lib/b.cl", "li", "a.h2"};
  EXPECT_TRUE(check_links(files).ok());
  for (const std::string link : {"lib", "lib/a.cl", "a.h", "w.bin", "function.yaml"}) {
    files.links = {link};
    const Status checked = check_links(files);
    ASSERT_FALSE(checked.ok()) << link;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(checked.error().text, link + ": is a link; pack the file itself");
  }
}

TEST(Tar, RefusesNamesThatCollide) {
  EXPECT_NE(problem({{"a", '0', "1"}, {"a", '0', "2"}}).find("comes twice"), std::string::npos);
  EXPECT_NE(problem({{"a", '0', "1"}, {"./a", '0', "2"}}).find("comes twice"), std::string::npos);
  EXPECT_NE(problem({{"a", '0', "1"}, {"a/b", '0', "2"}}).find("within a file"), std::string::npos);
  EXPECT_EQ(problem({{"a-b", '0', "1"}, {"a/b", '0', "2"}}), "");
}

TEST(Tar, RefusesWhatIsDamaged) {
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read("this is no tar").ok());
  EXPECT_FALSE(read(std::string(512, 'x')).ok());
  EXPECT_TRUE(read(std::string(512, '\0')).ok());
  const std::string good = tar_of({{"a", '0', std::string(600, 'c')}});
  EXPECT_TRUE(read(good).ok());
  for (size_t size : {size_t{1}, size_t{511}, size_t{512}, size_t{1000}, size_t{1111}, size_t{1200}, size_t{1536}})
    EXPECT_FALSE(read(good.substr(0, size)).ok()) << size;
  std::string flipped = good;
  flipped[3] ^= 1;
  EXPECT_NE(read(flipped).error().text.find("damaged"), std::string::npos);
  for (std::string size :
       {std::string("9999999999x"), std::string("7777777777777").substr(0, 12), std::string("-0000000001"),
        std::string("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12),
        std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12)})
    EXPECT_NE(problem({{.name = "a", .size = size}}), "") << size;
  for (std::string record : {"5 a=b\n", "999 path=a\n", "path=a\n", "0 a=b\n", "6 a=b", "7 path\n",
                             "18446744073709551616 a=b\n", "10 size=x\n", "1 \n"})
    EXPECT_NE(problem({{"pax", 'x', record}, {"a", '0', ""}}), "") << record;
  EXPECT_NE(problem({{"pax", 'x', "27 GNU.sparse.realsize=999\n"}, {"a", '0', ""}}), "");
  EXPECT_NE(problem({{"pax", 'x', "14 size=99999\n"}, {"a", '0', "1"}}).find("ends within"), std::string::npos);
}

TEST(Tar, RefusesTooManyFiles) {
  Files files;
  for (size_t i = 0; i <= kMostFiles; ++i) files["f" + std::to_string(i)] = {};
  EXPECT_FALSE(write_tar(files).ok());
  std::string tar;
  for (const auto& [name, content] : files) tar += block_of({name});
  EXPECT_NE(read(tar + std::string(1024, '\0')).error().text.find("more than 4096 files"), std::string::npos);
}

}  // namespace
}  // namespace quern
