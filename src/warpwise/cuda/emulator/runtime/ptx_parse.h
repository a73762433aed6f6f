// The parser of inline PTX: splits an asm statement's text into instructions with their guard predicates, labels and
// operands.
#pragma once
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>

#include "ptx_program.h"

namespace ptx {
class Parser {
 public:
  Parser(const char* text, const ww_ptx_operand* operands, unsigned count)
      : text_(clean(text)), operands_(operands), count_(count) {}

  Program* parse() {
    auto* program = new Program;
    for (const std::string& statement : statements()) {
      read_statement(*program, statement);
      if (!error_.empty()) break;
    }
    for (Instruction& instruction : program->instructions)
      for (Operand& operand : instruction.operands)
        if (operand.kind == Kind::label) operand.index = label(operand);
    program->registers = static_cast<int>(registers_.size());
    program->error = error_;
    return program;
  }

 private:
  // Removes comments.
  static std::string clean(const char* text) {
    std::string result;
    for (const char* p = text; *p;) {
      if (p[0] == '/' && p[1] == '/') {
        while (*p && *p != '\n') ++p;
      } else if (p[0] == '/' && p[1] == '*') {
        for (p += 2; *p && !(p[0] == '*' && p[1] == '/'); ++p) {
        }
        if (*p) p += 2;
      } else {
        result += *p++;
      }
    }
    return result;
  }

  // Splits the text at ';'. Removes braces around statements, which are scopes; keeps braces around vector operands.
  std::vector<std::string> statements() const {
    std::vector<std::string> result;
    std::string current;
    bool in_operands = false;
    int depth = 0;
    for (const char c : text_) {
      if (c == '{' && !in_operands) continue;
      if (c == '}' && depth == 0) continue;
      if (c == '{') ++depth;
      if (c == '}') --depth;
      if (c == ';') {
        result.push_back(current);
        current.clear();
        in_operands = false;
        continue;
      }
      if (!std::isspace(static_cast<unsigned char>(c))) in_operands = true;
      if (c == ':') in_operands = false;  // a label; another statement follows
      if (c == '\n' && current.find_first_not_of(" \t\n\r") == std::string::npos) continue;
      current += c;
    }
    if (current.find_first_not_of(" \t\n\r") != std::string::npos) result.push_back(current);
    return result;
  }

  void read_statement(Program& program, std::string statement) {
    for (;;) {  // leading labels
      const size_t start = statement.find_first_not_of(" \t\n\r");
      if (start == std::string::npos) return;
      statement = statement.substr(start);
      const size_t colon = statement.find(':');
      if (colon == std::string::npos || (colon + 1 < statement.size() && statement[colon + 1] == ':')) break;
      const std::string name = trim(statement.substr(0, colon));
      if (name.find_first_of(" \t,[%@") != std::string::npos) break;
      labels_[name] = static_cast<int>(program.instructions.size());
      statement = statement.substr(colon + 1);
    }
    if (statement.rfind(".reg", 0) == 0 || statement.rfind(".pragma", 0) == 0 || statement.rfind(".loc", 0) == 0)
      return;
    if (statement[0] == '.') {
      error_ = "the directive " + statement.substr(0, 40);
      return;
    }
    Instruction instruction;
    size_t at = 0;
    if (statement[0] == '@') {
      size_t end = statement.find_first_of(" \t\n\r");
      std::string guard = statement.substr(1, end - 1);
      instruction.guard_negated = !guard.empty() && guard[0] == '!';
      if (instruction.guard_negated) guard = guard.substr(1);
      const Operand predicate = operand(guard);
      instruction.guard = predicate.kind == Kind::operand ? ~predicate.index - 1 : predicate.index;
      at = statement.find_first_not_of(" \t\n\r", end);
    }
    const size_t end = std::min(statement.find_first_of(" \t\n\r{[%", at), statement.size());
    instruction.name = statement.substr(at, end - at);
    split_name(instruction);
    if (end < statement.size())
      for (const std::string& text : split(statement.substr(end))) instruction.operands.push_back(operand(text));
    const NamePart& kind = instruction.parts[0];
    if (kind == "ld" || kind == "ldu" || kind == "st")
      for (Operand& each : instruction.operands)
        if (each.kind == Kind::vector && each.parts.size() == 1) each = Operand(each.parts[0]);  // ld.u32 {%0}, [%1]
    resolve(instruction);
    program.instructions.push_back(instruction);
  }

  static void split_name(Instruction& instruction) {
    std::string part;
    for (const char c : instruction.name + ".") {
      if (c != '.') {
        part += c;
        continue;
      }
      instruction.parts.push_back(part);
      part.clear();
    }
    for (const NamePart& each : instruction.parts) {
      if (is_type(each)) {
        instruction.source_type = instruction.type.empty() ? NamePart() : each;
        if (instruction.type.empty()) instruction.type = each;
      }
      if (each == "v2" || each == "v4" || each == "v8") instruction.vector_width = each[1] - '0';
    }
  }
  static bool is_type(const NamePart& part) {
    if (part == "pred" || part == "bf16" || part == "bf16x2" || part == "f16x2" || part == "tf32" || part == "e4m3x2" ||
        part == "e5m2x2" || part == "e4m3" || part == "e5m2" || part == "e2m3x2" || part == "e3m2x2" ||
        part == "e2m1x2" || part == "ue8m0x2" || part == "f32x2")
      return true;
    if (part.empty() || !part[1] || !std::strchr("busf", part[0])) return false;
    for (size_t i = 1; part[i]; ++i)
      if (!std::isdigit(static_cast<unsigned char>(part[i]))) return false;
    return true;
  }

  static std::string trim(const std::string& text) {
    const size_t start = text.find_first_not_of(" \t\n\r"), end = text.find_last_not_of(" \t\n\r");
    return start == std::string::npos ? "" : text.substr(start, end - start + 1);
  }
  static std::vector<std::string> split(const std::string& text, char separator = ',') {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : text) {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == separator && depth == 0)
        parts.emplace_back();
      else
        parts.back() += c;
    }
    std::vector<std::string> result;
    for (const std::string& part : parts)
      if (!trim(part).empty()) result.push_back(trim(part));
    return result;
  }

  Operand operand(const std::string& raw) {
    std::string text = trim(raw);
    Operand result;
    if (text.empty()) return result;
    if (const auto bar = split(text, '|'); bar.size() == 2) {
      result = operand(bar[0]);
      result.pair = true;
      result.parts.push_back(operand(bar[1]));
      return result;
    }
    if (text[0] == '{' || text[0] == '[') {
      result.kind = text[0] == '{' ? Kind::vector : Kind::address;
      const std::string inside = trim(text.substr(1, text.size() - 2));
      if (result.kind == Kind::vector) {
        for (const std::string& part : split(inside)) result.parts.push_back(operand(part));
        return result;
      }
      if (const auto parts = split(inside); parts.size() == 2) {  // [map, {x, y}]
        result.parts = {operand(parts[0]), operand(parts[1])};
        return result;
      }
      size_t sign = inside.find_first_of("+-", 1);
      const std::string base = trim(inside.substr(0, sign));
      if (sign != std::string::npos) {
        std::string offset = trim(inside.substr(sign + 1));
        const Operand value = operand(offset);
        if (value.kind == Kind::immediate) {
          result.offset = static_cast<long long>(value.bits) * (inside[sign] == '-' ? -1 : 1);
          result.parts.push_back(operand(base));
        } else {  // [%0+%1] with a constant operand
          result.parts.push_back(operand(base));
          result.parts.push_back(value);
        }
        return result;
      }
      result.parts.push_back(operand(base));
      return result;
    }
    if (text == "_") {
      result.kind = Kind::sink;
      return result;
    }
    if (text[0] == '!') {
      result = operand(text.substr(1));
      result.negated = true;
      return result;
    }
    if (text[0] == '%' && text.size() > 1 && (std::isdigit(static_cast<unsigned char>(text[1])) || text[1] == '[')) {
      result.kind = Kind::operand;
      result.index = text[1] == '[' ? named(text.substr(2, text.size() - 3)) : std::atoi(text.c_str() + 1);
      if (result.index < 0 || result.index >= static_cast<int>(count_))
        error_ = "operand " + text + ": the statement has no such operand";
      return result;
    }
    while (!text.empty() && text[0] == '%') text = text.substr(1);  // %%laneid
    if (special(text, result)) return result;
    const bool number =
        std::isdigit(static_cast<unsigned char>(text[0])) || ((text[0] == '-' || text[0] == '+') && text.size() > 1);
    if (number) {
      read_number(text, result);
      return result;
    }
    if (text[0] == '$' || (labels_.count(text) && !registers_.count(text))) {
      result.kind = Kind::label;
      label_names_.push_back(text);
      result.bits = label_names_.size() - 1;
      return result;
    }
    result.kind = Kind::reg;
    auto found = registers_.find(text);
    if (found == registers_.end()) found = registers_.emplace(text, static_cast<int>(registers_.size())).first;
    result.index = found->second;
    label_of_register_[result.index] = text;
    return result;
  }

  // 0f... and 0d... are the bits of an f32 or f64 in hexadecimal; other literals are as in C.
  static void read_number(const std::string& text, Operand& result) {
    result.kind = Kind::immediate;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
      result.bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    } else if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D')) {
      result.bits = std::strtoull(text.c_str() + 2, nullptr, 16);
      result.is_double = true;
    } else if (text.find('.') != std::string::npos) {
      const double value = std::strtod(text.c_str(), nullptr);
      __builtin_memcpy(&result.bits, &value, sizeof value);
      result.is_double = true;
    } else if (text.rfind("0b", 0) == 0) {
      result.bits = std::strtoull(text.c_str() + 2, nullptr, 2);
    } else {
      result.bits = static_cast<unsigned long long>(text[0] == '-' ? std::strtoll(text.c_str(), nullptr, 0) : 0);
      if (text[0] != '-') result.bits = std::strtoull(text.c_str(), nullptr, 0);
    }
  }

  int named(const std::string& name) const {
    for (unsigned i = 0; i < count_; ++i)
      if (operands_[i].name && name == operands_[i].name) return static_cast<int>(i);
    return -1;
  }
  int label(const Operand& operand) {
    const auto found = labels_.find(label_names_[operand.bits]);
    if (found != labels_.end()) return found->second;
    error_ = "the undefined label " + label_names_[operand.bits];
    return 0;
  }

 public:
  // The position of a branch's label, or -1. A forward branch is parsed before its label, as a branch to a register of
  // the same name; call this once the whole text is parsed.
  int branch_target(const Operand& operand) {
    if (operand.kind == Kind::label) return operand.index;
    const auto found = labels_.find(label_of_register_[operand.index]);
    return found == labels_.end() ? -1 : found->second;
  }

 private:
  static bool special(const std::string& name, Operand& result) {
    static const std::map<std::string, Special> known = {{"laneid", Special::laneid},
                                                         {"warpid", Special::warpid},
                                                         {"nwarpid", Special::nwarpid},
                                                         {"smid", Special::smid},
                                                         {"nsmid", Special::nsmid},
                                                         {"gridid", Special::gridid},
                                                         {"tid.x", Special::tid_x},
                                                         {"tid.y", Special::tid_y},
                                                         {"tid.z", Special::tid_z},
                                                         {"ntid.x", Special::ntid_x},
                                                         {"ntid.y", Special::ntid_y},
                                                         {"ntid.z", Special::ntid_z},
                                                         {"ctaid.x", Special::ctaid_x},
                                                         {"ctaid.y", Special::ctaid_y},
                                                         {"ctaid.z", Special::ctaid_z},
                                                         {"nctaid.x", Special::nctaid_x},
                                                         {"nctaid.y", Special::nctaid_y},
                                                         {"nctaid.z", Special::nctaid_z},
                                                         {"lanemask_eq", Special::lanemask_eq},
                                                         {"lanemask_le", Special::lanemask_le},
                                                         {"lanemask_lt", Special::lanemask_lt},
                                                         {"lanemask_ge", Special::lanemask_ge},
                                                         {"lanemask_gt", Special::lanemask_gt},
                                                         {"clock", Special::clock},
                                                         {"clock64", Special::clock64},
                                                         {"globaltimer", Special::globaltimer},
                                                         {"globaltimer_lo", Special::globaltimer},
                                                         {"dynamic_smem_size", Special::dynamic_smem_size},
                                                         {"cluster_ctarank", Special::cluster_ctarank},
                                                         {"cluster_nctarank", Special::cluster_nctarank},
                                                         {"cluster_ctaid.x", Special::cluster_ctaid_x},
                                                         {"cluster_ctaid.y", Special::cluster_ctaid_y},
                                                         {"cluster_ctaid.z", Special::cluster_ctaid_z},
                                                         {"cluster_nctaid.x", Special::cluster_nctaid_x},
                                                         {"cluster_nctaid.y", Special::cluster_nctaid_y},
                                                         {"cluster_nctaid.z", Special::cluster_nctaid_z},
                                                         {"clusterid.x", Special::clusterid_x},
                                                         {"clusterid.y", Special::clusterid_y},
                                                         {"clusterid.z", Special::clusterid_z},
                                                         {"nclusterid.x", Special::nclusterid_x},
                                                         {"nclusterid.y", Special::nclusterid_y},
                                                         {"nclusterid.z", Special::nclusterid_z},
                                                         {"is_explicit_cluster", Special::is_explicit_cluster}};
    const auto found = known.find(name);
    if (found == known.end()) return false;
    result.kind = Kind::special;
    result.index = static_cast<int>(found->second);
    return true;
  }

  std::string text_;
  const ww_ptx_operand* operands_;
  unsigned count_;
  std::map<std::string, int> registers_, labels_;
  std::map<int, std::string> label_of_register_;
  std::vector<std::string> label_names_;
  std::string error_;
};

inline const Program* parse(const char* text, const ww_ptx_operand* operands, unsigned count) {
  Parser parser(text, operands, count);
  Program* program = parser.parse();
  for (Instruction& instruction : program->instructions) {
    if (instruction.parts[0] != "bra" || instruction.operands.empty()) continue;
    Operand& target = instruction.operands[0];
    const int position = parser.branch_target(target);
    if (position < 0) program->error = "a branch to a label outside the asm statement";
    target.kind = Kind::label;
    target.index = position;
  }
  return program;
}
}  // namespace ptx
