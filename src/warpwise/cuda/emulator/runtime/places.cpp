// Numbers of source places; see places.h.
#include "places.h"

#include <unordered_map>
#include <vector>

#include "shadow.h"

namespace ww {
namespace {

std::vector<int> places = {0};
std::unordered_map<int, uint32_t> numbers;

}  // namespace

NumberedPlace recent_places[kRecentPlaces];

uint32_t find_number_of_place(int place) {
  const auto [found, is_new] = numbers.try_emplace(place, static_cast<uint32_t>(places.size()));
  if (is_new) {
    if (places.size() < kLineFlag)
      places.push_back(place);
    else
      found->second = 0;
  }
  recent_places[static_cast<unsigned>(place) % kRecentPlaces] = {place, found->second};
  return found->second;
}

int place_of_number(uint32_t number) { return places[number]; }

}  // namespace ww
