// Global variables of a kernel's library (__device__, __constant__, constexpr tables). They are outside the arena;
// their addresses and sizes come from the library's ELF symbol table, so that out-of-bounds accesses are found.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "abi_extra.h"
#include "access.h"
#include "heap.h"

namespace ww {
namespace {

struct GlobalVariable {
  Address start;
  size_t bytes;
  uint32_t element_bytes;   // 0 if ww_entry_globals does not list the variable
  bool constant, of_class;  // of_class: a table of virtual functions or type information
  std::string name;
  bool unset = false;            // __constant__ memory without an initialiser that the host has not written
  bool constant_memory = false;  // __constant__
  bool added = false;            // by the C library or the emulator's headers
  std::unique_ptr<Slot> slot;    // its shadow memory, once the kernel has accessed it
};
struct Segment {
  Address start, end;
  bool code, writable;
};
struct Module {
  std::vector<Segment> segments;
  std::vector<GlobalVariable> objects;  // sorted by address
  Address text, bias;
  bool synchronises_partly = false;
  Address first = 0;  // of `objects`, which end `length` bytes later
  size_t length = 0;
  std::unordered_set<Address> reported_unset;  // in this launch
};
std::unordered_map<Address, std::unique_ptr<Module>> modules;  // keyed by entry point
Module* current_module = nullptr;

// `kernel(float*)::table` -> `table`
std::string short_name(const char* symbol) {
  char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  std::string name = demangled ? demangled : symbol;
  free(demangled);
  int depth = 0;
  for (size_t i = name.size(); i-- > 1;) {
    if (name[i] == ')' || name[i] == '>') depth++;
    if (name[i] == '(' || name[i] == '<') depth--;
    if (!depth && name[i] == ':' && name[i - 1] == ':') return name.substr(i + 1);
  }
  return name;
}

// Functions that synchronise some threads of a block, or threads of several blocks. A kernel that calls none has only
// the barriers of blocks and grids.
bool synchronises_partly(const char* symbol) {
  static constexpr const char* kPrefixes[] = {"ww_syncwarp", "ww_named_barrier", "ww_group_", "ww_barrier_",  "ww_ptx",
                                              "ww_fence",    "ww_cluster_",      "ww_strong", "__tsan_atomic"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return !strncmp(symbol, prefix, strlen(prefix)); });
}

// Variables of the C library's start-up code, of the namespace ww, and of functions of the emulator's headers.
bool is_added(const char* symbol) {
  static constexpr const char* kPrefixes[] = {"completed.", "_ZN2ww", "_ZZN2ww", "_ZZNK2ww", "_ZZ16ww_entry_globals"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return !strncmp(symbol, prefix, strlen(prefix)); });
}

void read_symbols(const char* file, Address base, Module& module) {
  const int descriptor = open(file, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status;
  void* mapped = fstat(descriptor, &status)
                     ? MAP_FAILED
                     : mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED) return;
  const char* image = static_cast<const char*>(mapped);
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(image);
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(image + header->e_shoff);
  const char* section_names = image + sections[header->e_shstrndx].sh_offset;
  for (unsigned s = 0; s < header->e_shnum; s++) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(image + sections[s].sh_offset);
    const char* names = image + sections[sections[s].sh_link].sh_offset;
    for (size_t i = 0; i < sections[s].sh_size / sizeof(ElfW(Sym)); i++) {
      const ElfW(Sym) & symbol = symbols[i];
      if (symbol.st_shndx == SHN_UNDEF) module.synchronises_partly |= synchronises_partly(names + symbol.st_name);
      if ((symbol.st_info & 0xf) != STT_OBJECT || !symbol.st_size || symbol.st_shndx >= header->e_shnum) continue;
      const ElfW(Shdr) & section = sections[symbol.st_shndx];
      const bool constant_memory = !strcmp(section_names + section.sh_name, "ww_constant");
      const bool constant = !(section.sh_flags & SHF_WRITE) || constant_memory;
      const char* name = names + symbol.st_name;
      module.objects.push_back(
          {base + symbol.st_value, symbol.st_size, 0, constant, !strncmp(name, "_ZT", 3), short_name(name)});
      module.objects.back().constant_memory = constant_memory;
      module.objects.back().added = is_added(name);
    }
  }
  munmap(mapped, static_cast<size_t>(status.st_size));
}

// Adds what the library's ww_entry_globals table lists: the size of an element, and which variables are __constant__.
void read_table(const char* file, std::vector<GlobalVariable>& objects) {
  void* library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return;
  using Table = const ww_global* (*)(size_t*);
  if (const auto table = reinterpret_cast<Table>(dlsym(library, "ww_entry_globals"))) {
    size_t count = 0;
    const ww_global* globals = table(&count);
    for (size_t i = 0; i < count; i++) {
      if (!globals[i].name) continue;
      const Address start = reinterpret_cast<Address>(globals[i].address);
      const auto known = std::find_if(objects.begin(), objects.end(),
                                      [&](const GlobalVariable& object) { return object.start == start; });
      GlobalVariable object{start, globals[i].bytes, globals[i].element_bytes, globals[i].constant != 0,
                            false, globals[i].name};
      object.constant_memory = object.constant;
      object.unset = globals[i].constant == kUninitialisedConstant;
      if (known == objects.end())
        objects.push_back(std::move(object));
      else
        *known = std::move(object);
    }
  }
  dlclose(library);
}

// Variables of the kernel, which it can write.
bool has_shadow(const GlobalVariable& object) {
  return !object.constant && !object.of_class && object.name[0] != '_' && object.name.compare(0, 3, "ww_");
}

Slot& shadow_of(GlobalVariable& object) {
  if (!object.slot) {
    object.slot = std::make_unique<Slot>();
    Slot& slot = *object.slot;
    slot.start = object.start;
    slot.bytes = object.bytes;
    slot.space = kModule;
    slot.views.push_back({object.start, object.bytes, object.element_bytes ? object.element_bytes : 1, false, false,
                          object.name.c_str()});
    allocate_shadow_cells(slot);
  }
  return *object.slot;
}

GlobalVariable* object_at(Address address) {
  std::vector<GlobalVariable>& objects = current_module->objects;
  const auto after = std::upper_bound(objects.begin(), objects.end(), address,
                                      [](Address a, const GlobalVariable& object) { return a < object.start; });
  if (after == objects.begin() || address - (after - 1)->start >= (after - 1)->bytes) return nullptr;
  return &*(after - 1);
}

// A variable of the source, as opposed to those of the compiler, the C library and the emulator's headers.
bool is_of_source(const GlobalVariable& object) {
  return !object.added && !object.of_class && object.name[0] != '_' && object.name.compare(0, 3, "ww_");
}

// The variable that an access out of bounds probably meant: the last one before the address, else the first one after.
GlobalVariable* nearest_variable(Address address) {
  constexpr size_t kNear = size_t{1} << 20;
  GlobalVariable* nearest = nullptr;
  for (GlobalVariable& object : current_module->objects) {
    if (!is_of_source(object) || (object.start > address && (nearest || object.start - address >= kNear))) continue;
    if (object.start <= address && address - object.start > object.bytes + kNear) continue;
    nearest = &object;
  }
  return nearest;
}

const GlobalVariable* last_object(const Module& module, Address address) {
  const auto after = std::upper_bound(module.objects.begin(), module.objects.end(), address,
                                      [](Address a, const GlobalVariable& object) { return a < object.start; });
  return after == module.objects.begin() ? nullptr : &*(after - 1);
}

// An object that another kernel of a program created refers to the virtual functions in that kernel's library.
bool in_table_of_another_module(Address address, size_t bytes) {
  for (const auto& [entry, module] : modules) {
    const GlobalVariable* object = last_object(*module, address);
    if (object && object->of_class && address + bytes <= object->start + object->bytes) return true;
  }
  return false;
}

struct Search {
  Address address;
  Module* module;    // that holds the address
  std::string file;  // empty if no library holds it
};

int find_module(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  bool holds_address = false;
  std::vector<Segment> segments;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const Address start = info->dlpi_addr + header.p_vaddr;
    segments.push_back({start, start + header.p_memsz, (header.p_flags & PF_X) != 0, (header.p_flags & PF_W) != 0});
    if (search.address - start < header.p_memsz) {
      holds_address = true;
      search.module->text = start;
    }
  }
  if (!holds_address) return 0;
  search.module->segments = std::move(segments);
  search.module->bias = info->dlpi_addr;
  search.file = info->dlpi_name;
  return 1;
}

// True for a global variable of host code, such as one of the program whose kernel runs.
bool in_variable_of_another_library(Address address) {
  Module module;
  Search search{address, &module, ""};
  dl_iterate_phdr(find_module, &search);
  if (search.file.empty() || module.bias == current_module->bias) return false;
  read_symbols(search.file.c_str(), module.bias, module);
  return std::any_of(module.objects.begin(), module.objects.end(), [&](const GlobalVariable& object) {
    return is_of_source(object) && address - object.start < object.bytes;
  });
}

}  // namespace

bool in_constant_memory(Address address) {
  const GlobalVariable* object = object_at(address);
  return object && object->constant_memory;
}

void select_module(Address entry) {
  std::unique_ptr<Module>& module = modules[entry];
  if (!module) {
    module = std::make_unique<Module>();
    Search search{entry, module.get(), ""};
    dl_iterate_phdr(find_module, &search);
    std::vector<GlobalVariable>& objects = module->objects;
    read_symbols(search.file.c_str(), module->bias, *module);
    read_table(search.file.c_str(), objects);
    std::sort(objects.begin(), objects.end(),
              [](const GlobalVariable& a, const GlobalVariable& b) { return a.start < b.start; });
  }
  if (!module->objects.empty() && !module->first) {
    module->first = module->objects.front().start;
    for (const GlobalVariable& object : module->objects)
      module->length = std::max(module->length, object.start + object.bytes - module->first);
  }
  module->reported_unset.clear();
  current_module = module.get();
  runtime.text = module->text;
  runtime.synchronises_partly = module->synchronises_partly;
}

void constant_is_set(Address entry, Address address) {
  Module* const before = current_module;
  const Address text = runtime.text;
  select_module(entry);
  if (GlobalVariable* object = object_at(address)) object->unset = false;
  current_module = before;
  runtime.text = text;
}

Address load_bias() { return current_module->bias; }

bool in_kernel_code(Address pc) {
  for (const Segment& segment : current_module->segments)
    if (segment.code && pc >= segment.start && pc < segment.end) return true;
  return false;
}

Slot* module_slot(Address address) {
  if (!runtime.checks.races || address - current_module->first > current_module->length) return nullptr;
  GlobalVariable* object = object_at(address);
  return object && has_shadow(*object) ? &shadow_of(*object) : nullptr;
}

void clear_module_shadow() {
  for (auto& [entry, module] : modules)
    for (GlobalVariable& object : module->objects)
      if (object.slot && object.slot->cell_memory) memset(object.slot->cell_memory, 0, object.slot->cell_bytes);
}

// Reports the first read of __constant__ memory that has not been set.
static void check_is_set(GlobalVariable& object, Address address, size_t bytes, Address pc, int line) {
  if (!object.unset || current_module->reported_unset.count(object.start)) return;
  const char* memory = reinterpret_cast<const char*>(object.start);
  if (std::any_of(memory, memory + object.bytes, [](char byte) { return byte != 0; })) return;
  current_module->reported_unset.insert(object.start);
  Report report = new_report(kUninitializedRead, pc, line);
  report.access.action = kRead;
  report.address = address;
  report.access_bytes = static_cast<uint32_t>(bytes);
  report.space = kModule;
  snprintf(report.variable, sizeof report.variable, "%s", object.name.c_str());
  report.element_bytes = object.element_bytes ? object.element_bytes : static_cast<uint32_t>(bytes);
  report.index = static_cast<int64_t>((address - object.start) / report.element_bytes);
  report.elements = static_cast<int64_t>(object.bytes / report.element_bytes);
  set_message(report, "read of '%s', __constant__ memory that has no initialiser and that the host has not set",
              object.name.c_str());
  add_report(report);
}

void check_module_access(Address address, size_t bytes, bool write, Address pc, unsigned flags, int line) {
  const Segment* inside = nullptr;
  for (const Segment& segment : current_module->segments)
    if (address >= segment.start && address + bytes <= segment.end) inside = &segment;
  std::vector<GlobalVariable>& objects = current_module->objects;
  const auto after = std::upper_bound(objects.begin(), objects.end(), address,
                                      [](Address a, const GlobalVariable& object) { return a < object.start; });
  GlobalVariable* object = after == objects.begin() ? nullptr : &*(after - 1);
  if (inside && object && address + bytes <= object->start + object->bytes && !(write && object->constant)) {
    if (runtime.checks.uninitialised) check_is_set(*object, address, bytes, pc, line);
    if (runtime.checks.races && has_shadow(*object))
      record_words(shadow_of(*object), address, bytes, write, pc, flags, line);
    return;
  }
  if (inside && !inside->writable && !write) return;  // literals and compiler-generated tables have no symbols
  if (check_heap_access(address, bytes, write, pc, line)) return;
  if (!write && in_table_of_another_module(address, bytes)) return;
  Report report = new_report(kOutOfBounds, pc, line);
  report.address = address;
  report.access.action = write ? kWrite : kRead;
  report.access_bytes = static_cast<uint32_t>(bytes);
  if (!object_at(address)) object = in_variable_of_another_library(address) ? nullptr : nearest_variable(address);
  if (!object) fatal_report(report, "the address is not in an argument, a shared variable or a local variable");
  snprintf(report.variable, sizeof report.variable, "%s", object->name.c_str());
  report.space = kModule;
  const size_t width = object->element_bytes ? object->element_bytes : bytes;
  report.element_bytes = static_cast<uint32_t>(width);
  const int64_t offset = static_cast<int64_t>(address - object->start);
  report.index = offset / static_cast<int64_t>(width) - (offset < 0 && offset % static_cast<int64_t>(width) != 0);
  report.elements = static_cast<int64_t>(object->bytes / width);
  if (offset >= 0 && address + bytes <= object->start + object->bytes) report.kind = kReadOnlyWrite;
  fatal_report(report, "%s", "");
}

}  // namespace ww
