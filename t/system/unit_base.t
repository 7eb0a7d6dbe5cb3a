#!/usr/bin/perl

# The tests in C of src/base, t/unit/base.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Unit;

run_tests('ngx_etcd_test_base_module');
