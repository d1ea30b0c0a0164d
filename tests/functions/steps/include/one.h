// SPDX-License-Identifier: Apache-2.0
#pragma once
#define ONE 1
