// SPDX-License-Identifier: Apache-2.0
#include "function/includes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "function/manifest.h"

namespace quern {
namespace {

using testing::HasSubstr;

// The lines that are refused, and nothing else.
std::vector<int> refused(std::string_view source) {
  std::vector<int> lines;
  for (const IncludeProblem& one : check_includes(source)) lines.push_back(one.line);
  return lines;
}

TEST(Includes, OwnFilesAreTaken) {
  for (const char* line : {"#include \"pixel.h\"", "#include <pixel.h>", " # include \"sub/pixel.h\" // \"/etc\"",
                           "%:include \"./pixel.h\"", "#/* a */include/* b */\"pixel.h\"", "#include_next <a..b/..c.h>",
                           "#ifdef __has_include", "#if __has_include(\"pixel.h\") && defined(__has_include)",
                           "// #include \"/etc/passwd\"", "x = \"#include\";", "float include = a */* b */ include_;",
                           "#pragma unroll", "#define includes(x) x", "int reinclude; // see /etc/passwd and ..",
                           "/* We do not", "   include anything. */", ""})
    EXPECT_TRUE(check_includes(line).empty()) << line;
}

TEST(Includes, OthersAreRefusedWithWhatToDo) {
  const auto problems = check_includes("float x;\n#include \"/etc/passwd\"\n\n#include <a/../../b.h>\n#include NAME\n");
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0].line, 2);
  EXPECT_EQ(problems[0].text,
            "#include \"/etc/passwd\" is an absolute path; copy the file into the function's folder and name it under "
            "headers");
  EXPECT_EQ(problems[1].line, 4);
  EXPECT_THAT(problems[1].text, HasSubstr("leaves the function's folder by '..'; copy the file into the folder"));
  EXPECT_EQ(problems[2].line, 5);
  EXPECT_THAT(problems[2].text, HasSubstr("does not name its file on the same line; write the name of a header"));
}

TEST(Includes, NoSpellingIsAWayRound) {
  for (const char* source : {
           "#include</etc/passwd>",
           "#import \"/etc/passwd\"",
           "#include_next \"/etc/passwd\"",
           "#embed \"/etc/passwd\"",
           "%:include \"/etc/passwd\"",
           "?\?=include \"/etc/passwd\"",
           "\t#\vinclude\f\"/etc/passwd\"",
           "#inc\\\nlude \"/etc/passwd\"",
           "#inc\\ \t\r\nlude \"/etc/passwd\"",
           "#inc?\?/\nlude \"/etc/passwd\"",
           "#include \\\n \"/etc\\\n/passwd\"",
           "#include \"sub/..\\\n/../x\"",
           "/* a */ /* b */ # /* c */ include /* d */ \"/etc/passwd\"",
           "/*\n*/#include \"/etc/passwd\"",
           "#/*\n*/include \"/etc/passwd\"",
           "#/*\n*/ /**/ include NAME",
           "#include /*\n*/ \"/etc/passwd\"",
           "// ?\?/\n#include \"/etc/passwd\"",
           "#warning /*\n#include \"/etc/passwd\"\n//*/",
           "#warning /*\n#/*\n*/include \"/etc/passwd\"\n//*/",
           "'/*\n#include \"/etc/passwd\"\n//*/",
           "float x;\r#include \"/etc/passwd\"",
           "\xEF\xBB\xBF#include \"/etc/passwd\"",
           "\xC2\xA0#\xE2\x80\x83include\xC2\xA0\"/etc/passwd\"",
           "\\u00a0#include \"/etc/passwd\"",
           "#\\N{NO-BREAK SPACE}include\\u{a0}\"/etc/passwd\"",
           "/*\n/*/ #include \"/etc/passwd\" /*/",
           "#/*\n/**/include NAME",
           "#include \"..\"",
           "#include",
           "#if __has_include(\"/etc/passwd\")",
           "#if __has_include ( </etc/passwd> )",
           "#if __has_include(NAME)",
       })
    EXPECT_FALSE(check_includes(source).empty()) << source;
}

// Megabytes that a check of every start against all that follows would take hours for.
TEST(Includes, LongLinesTakeNoLongerThanTheirLength) {
  const auto repeat = [](std::string_view text) {
    std::string all;
    while (all.size() < 4 << 20) all += text;
    return all;
  };
  EXPECT_THAT(check_includes(repeat("/**/")).at(0).text, HasSubstr("or more than 64 in a row; break it up"));
  EXPECT_TRUE(check_includes(repeat("a/**/")).empty());
  EXPECT_FALSE(check_includes(repeat("__has_include/*")).empty());
  EXPECT_TRUE(check_includes(repeat("\\u{*/")).empty());
  EXPECT_TRUE(check_includes(repeat("\n")).empty());
  EXPECT_FALSE(check_includes(repeat("*/include <") + ">").empty());
  EXPECT_EQ(check_includes(repeat("#include X\n")).size(), 100U);
}

TEST(Includes, LinesAreThoseOfTheFile) {
  EXPECT_EQ(refused("a\\\nb\r\nc\n#include X\n"), std::vector<int>{4});
  EXPECT_EQ(refused("#include X\r#include \"y.h\"\r#include Z"), (std::vector<int>{1, 3}));
}

TEST(Includes, AManifestTellsFileAndLine) {
  Files files;
  files["function.yaml"] = bytes_of(R"(
api: quern/v1
name: g
kind: graph
programs: {opencl: {files: [a.cl], headers: [sub/b.h]}}
buffers: {z: {role: output, dtype: fp32, shape: [8]}}
kernels: [{entry: k, global: [8], args: [{out: z}]}]
)");
  files["a.cl"] = bytes_of("#include \"sub/b.h\"\n");
  files["sub/b.h"] = bytes_of("\n  #include \"../../secret\"\n");
  ParsedManifest parsed = parse_manifest(files);
  EXPECT_FALSE(parsed.manifest);
  ASSERT_EQ(parsed.mistakes.size(), 1U);
  EXPECT_THAT(to_string(parsed.mistakes[0]), HasSubstr("sub/b.h:2:1: error: #include \"../../secret\" leaves"));
  files["sub/b.h"] = bytes_of("#include \"c.h\"\n");
  EXPECT_TRUE(parse_manifest(files).manifest);
}

}  // namespace
}  // namespace quern
