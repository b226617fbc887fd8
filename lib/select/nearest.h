#pragma once

#include "core/error.h"
#include "select/fields.h"
#include "select/selector.h"

namespace tl {

/// The error about a selector that matches no row of a table: kSiteNotFound, naming for the first term that matches
/// nothing by itself what comes closest to it.
Error nothing_matched(const Selector& selector, const FieldContext& context, TableId table);

}  // namespace tl
