// Memory by handles, which other processes can import.
#pragma once

namespace emulated {

// The context was given back.
void forget_handles();

}  // namespace emulated
