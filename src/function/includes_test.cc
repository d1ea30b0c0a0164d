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

/// `text` as a scalar of YAML.
std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? "\\n" : c == '\x7f' ? "\\x7f" : std::string(1, c);
  }
  return out + '"';
}

std::string mistakes_of(const Files& files) {
  std::string all;
  for (const Mistake& one : parse_manifest(files).mistakes) all += to_string(one) + "\n";
  return all;
}

TEST(Includes, OwnFilesAreTaken) {
  for (const char* line : {"#include \"pixel.h\"", "#include <pixel.h>", " # include \"sub/pixel.h\" // \"/etc\"",
                           "%:include \"./pixel.h\"", "#/* a */include/* b */\"pixel.h\"", "#include_next <a..b/..c.h>",
                           "#ifdef __has_include", "#if __has_include(\"pixel.h\") && defined(__has_include)",
                           "// #include \"/etc/passwd\"", "x = \"#include\";", "float include = a */* b */ include_;",
                           "#pragma unroll", "#define includes(x) x", "int reinclude; // see /etc/passwd and ..",
                           "/* We do not", "   include anything. */", "",
                           // Text inside of comments is no directive.
                           "/*\n#include \"../x.h\"\n*/", "/* a\r\n * #include </etc/passwd>\r\n */ float x;",
                           "float x; /*\n# include NAME\n*/\n#include \"pixel.h\"", "// */ #include \"/etc/passwd\"",
                           "// a \\\n#include \"../x.h\"", "char c = '\"'; /*\n#include NAME\n*/ char d = '\\'';",
                           "#define A \"/*\" /*\n#include NAME\n*/"})
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
           "#inc\\\n\rlude \"/etc/passwd\"",
           "#inc\\ \n\rlude \"/etc/passwd\"",
           "#inc?\?/\n\rlude \"/etc/passwd\"",
           "#include \\\n\r\"/etc/passwd\"",
           "#include \"a\\\"/../../../etc/passwd\"",
           "#include \"a?\?/\"/../../../etc/passwd\"",
           "#include <a\\>/../../../etc/passwd>",
           "#include \"sub\\..\\x\"",
           "#if __has_include(\"a\\\"/../../etc/passwd\")",
           "#include \\\n \"/etc\\\n/passwd\"",
           "#include \"sub/..\\\n/../x\"",
           "/* a */ /* b */ # /* c */ include /* d */ \"/etc/passwd\"",
           "/*\n*/#include \"/etc/passwd\"",
           "#/*\n*/include \"/etc/passwd\"",
           "#/*\n\r*/include \"/etc/passwd\"",
           "\" /* \"\n#include \"/etc/passwd\"\n\" */ \"",
           "/* *\\\n/\n#include \"/etc/passwd\"\n/* */",
           "/\\\n* */ \"/*\"\n#include \"/etc/passwd\"\n/* */",
           "#if 0\n#error /*\n#endif\n#include \"/etc/passwd\"\n/* */",
           "R\"(/*)\"\n#include \"/etc/passwd\"\n/* */",
           "1'0 /*'\n#include \"/etc/passwd\"\n/* */",
           "#include <a/*b>\n#include \"/etc/passwd\"\n/* */",
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
  EXPECT_TRUE(check_includes(repeat("/**/")).empty()) << "a compiler does not see them";
  EXPECT_THAT(check_compiled_text(repeat("/**/")).at(0).text, HasSubstr("or more than 64 in a row; break it up"));
  EXPECT_TRUE(check_includes(repeat("a/**/")).empty());
  EXPECT_FALSE(check_includes(repeat("__has_include/*")).empty());
  EXPECT_TRUE(check_includes(repeat("\\u{*/")).empty());
  EXPECT_TRUE(check_includes(repeat("\n")).empty());
  EXPECT_FALSE(check_includes(repeat("*/include <") + ">").empty());
  EXPECT_EQ(check_includes(repeat("#include X\n")).size(), 100U);
}

TEST(Includes, ACompilerGetsTheSameLinesWithoutComments) {
  struct Case {
    const char *source, *compiled;
  };
  for (const Case& one : {
           Case{"a\r\nb\rc\n\rd\n\r\ne", "a\nb\nc\nd\n\ne"},
           Case{"x /* a */ y // b\nz", "x         y     \nz"},
           Case{"x /* a\nb */ y", "x     \n     y"},
           // What follows a comment in a directive is part of the directive.
           Case{"#define X 1 /* a\nb */ + 2\ny", "#define X 1     \\\n     + 2\ny"},
           Case{"/*\n*/ # /*\n*/ define X", "  \n   #   \\\n   define X"},
           Case{"#define X 1 // a \\\n b\ny", "#define X 1       \n  \ny"},
           Case{"\"// no comment\" '\"' // one", "\"// no comment\" '\"'       "},
           Case{"\"a\\\"/*\" \"b\\\n/*\" /**/", "\"a\\\"/*\" \"b\\\n/*\"     "},
           Case{"#include <a//b.h> // c", "#include <a//b.h>     "},
           Case{"#if __has_include(<a//b.h>) && 1 < 2 // c > d", "#if __has_include(<a//b.h>) && 1 < 2         "},
           Case{"#error see a//b's c\n// d", "#error see a//b's c\n    "},
           Case{"a / b */ c", "a / b */ c"},
           Case{"a//**/b", "a      "},
       }) {
    EXPECT_EQ(text_to_compile(one.source), one.compiled) << one.source;
    EXPECT_EQ(text_to_compile(one.compiled), one.compiled) << one.source;
  }
  // Where compilers may differ, all comments stay.
  for (const char* text :
       {"/* a */ // ?\?/\nb", "/* a */ x = 1'000;", "/* a */ don't // b", "/* a */ R\"(// b)\"", "/* a */ /* b",
        "/* a */ /* b *\\\n/ c */", "/* a */ /\\\n/ b", "// a\n#error /* b", "// a\n// b \\ \nc", "/**/ #er\\\nror /*"})
    EXPECT_EQ(text_to_compile(text), text) << text;
}

TEST(Includes, LinesAreThoseOfTheFile) {
  EXPECT_EQ(refused("a\\\nb\r\nc\n#include X\n"), std::vector<int>{4});
  EXPECT_EQ(refused("/* a\nb\n*/\n#include X\n"), std::vector<int>{4});
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

TEST(Includes, NamesOfHeadersHaveNothingThatEndsANameForSomeReaders) {
  for (const std::string name : {"pixel.h", "sub/pixel 2.h", "b..c.h", "it's.h"})
    EXPECT_TRUE(is_header_name(name)) << name;
  for (const std::string name : {"a\\\"/x.h", "a\"b.h", "a>b.h", "a<b.h", "a\nb.h", "a\x7f.h", ""}) {
    EXPECT_FALSE(is_header_name(name)) << name;
    if (name.empty()) continue;
    Files files;
    files["function.yaml"] = bytes_of("programs: {opencl: {files: [a.cl], headers: [" + json_text(name) + "]}}");
    files["a.cl"] = bytes_of("");
    files[name] = bytes_of("");
    EXPECT_THAT(mistakes_of(files), HasSubstr("in its name; rename it")) << name;
  }
  // A program file is named in a #line: that takes quotes, and no line ends.
  Files files;
  files["function.yaml"] = bytes_of("programs: {opencl: " + json_text("a\n#include </etc/passwd>\n.cl") + "}");
  files["a\n#include </etc/passwd>\n.cl"] = bytes_of("");
  EXPECT_THAT(mistakes_of(files), HasSubstr("has a control character in its name; rename it"));
}

}  // namespace
}  // namespace quern
