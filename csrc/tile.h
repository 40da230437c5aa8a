// The header for kernel authors: arrays, tiles, control flow and every primitive.
#pragma once
#include "dsl/array.h"
#include "dsl/hints.h"
#include "dsl/range.h"
#include "dsl/tile.h"
#include "prims/assert.h"
#include "prims/atomics.h"
#include "prims/bytes.h"
#include "prims/detach.h"
#include "prims/elementwise.h"
#include "prims/grid.h"
#include "prims/memory.h"
#include "prims/mma.h"
#include "prims/print.h"
#include "prims/random.h"
#include "prims/raw.h"
#include "prims/reduce.h"
#include "prims/rows.h"
#include "prims/shape.h"
#include "prims/subtile.h"

namespace tile {
using enum DType;  // f32, bf16, i32, … by their short names
}
