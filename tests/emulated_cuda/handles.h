// Memory by handles, which other processes can import.
#pragma once

#include "abi.h"

namespace emulated {

// The context was given back.
void forget_handles();

// Whether memory by a handle begins there that was not made for network cards.
bool is_closed_to_cards(CUdeviceptr start);

}  // namespace emulated
