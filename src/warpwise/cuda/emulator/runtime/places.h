// Numbers of source places (ww_place), for stamps: a stamp has 17 bits for a place, and a place has 31. A process keeps
// the numbers, because memory may keep the stamps of an earlier launch.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace ww {

struct NumberedPlace {
  int place;
  uint32_t number;
};
constexpr size_t kRecentPlaces = 256;
extern NumberedPlace recent_places[kRecentPlaces];
uint32_t find_number_of_place(int place);

// From 1 on; 0 if there are more places than numbers.
inline uint32_t number_of_place(int place) {
  const NumberedPlace& recent = recent_places[static_cast<unsigned>(place) % kRecentPlaces];
  return recent.place == place ? recent.number : find_number_of_place(place);
}
int place_of_number(uint32_t number);  // 0 for 0

}  // namespace ww
