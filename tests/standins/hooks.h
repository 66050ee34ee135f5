// What the stand-in for the CUDA runtime exports beyond CUDA's own interface.
//
// The product refers to the first two only weakly: with the real libraries they are null.
#pragma once

#include <cstddef>

extern "C" {

// Present in each stand-in library and in nothing else; the result names the library. A run that
// finds it must label its results "stand_in": true.
const char* s2t_stand_in();

// Registers the twin of a kernel: what the CPU runs when `stub` (the kernel's host address) is
// launched. `capture` copies the arguments that the launch hands over, `run` executes them with
// `threads` = grid times block, and frees the copy.
void s2t_stand_in_twin(const void* stub, void* (*capture)(void** arguments),
                       void (*run)(void* captured, long threads));

// Bytes from `pointer` to the end of its device allocation; 0 when it is no device memory.
size_t s2t_stand_in_room(const void* pointer);
}
