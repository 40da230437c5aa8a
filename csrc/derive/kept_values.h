// Chooses how the values that a loop carries are kept until the reverse loop needs them.
#pragma once
#include <string>
#include <vector>

#include "derive/reverse.h"

namespace tile {

// Returns a way for each loop of a kernel that was derived with Keeping::all, in the order of its text.
std::vector<Keeping> choose_keeping(const Derived& plain, const LaunchSizes& sizes);

// Returns the extent of the array's axis of places.
int64_t places_of(const Derived& derived, const DerivedScratch& scratch, const LaunchSizes& sizes);

// Returns "kept for each iteration", "kept every 64 iterations", …
std::string keeping_text(const Derived& derived, const DerivedScratch& scratch, const LaunchSizes& sizes);

}  // namespace tile
