#!/usr/bin/perl
# Starts commands in turn and prints a row of milliseconds for each: interleave.pl ROUNDS PREFIX < COMMANDS
# Each line of input is a name, a tab, a command, and optionally a tab and options. The command is
# started without PREFIX, with PREFIX, the options and --, and so again. Before the first of these two, the
# notes are removed by which hugetext run knows what it looked at a moment ago. The row holds the medians of
# the wall time, those of the differences within a round, and that of the ratio of the last to the plain one. It is empty if
# a command fails.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($rounds, $prefix) = @ARGV;
my $session = $ENV{XDG_RUNTIME_DIR};
my $notes = $> == 0 ? "/run/hugetext/recent" : defined $session ? "$session/hugetext" : undef;

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return ($sorted[$#sorted / 2] + $sorted[@sorted / 2]) / 2;
}

# The milliseconds that a command takes. Its output is discarded.
sub run {
    my @command = @_;
    my $start = clock_gettime(CLOCK_MONOTONIC);
    my $child = fork() // die "fork: $!";
    if ($child == 0) {
        open STDIN, "<", "/dev/null";
        open STDOUT, ">", "/dev/null";
        open STDERR, ">", "/dev/null";
        exec(@command) or exit 127;
    }
    waitpid $child, 0;
    die "@command: failed\n" if $?;
    return 1000 * (clock_gettime(CLOCK_MONOTONIC) - $start);
}

sub forget {
    unlink glob "$notes/*" if defined $notes;
}

while (my $line = <STDIN>) {
    chomp $line;
    my ($name, $command, $options) = split /\t/, $line;
    my @plain = split ' ', $command;
    my @run = ((split ' ', $prefix), (split ' ', $options // ''), '--', @plain);
    # The first start makes copies and warms them.
    eval { run(@run); run(@plain); 1 } or do { print "| ", join(" | ", $name, ("") x 6), " |\n"; next };
    my (@before, @first, @again);
    my @sides = (
        sub { push @before, run(@plain) },
        sub { forget(); push @first, run(@run) },
        sub { push @again, run(@run) },
    );
    # The last side follows one with PREFIX, in its round or in the one before.
    my @orders = ([0, 1, 2], [2, 0, 1], [1, 2, 0]);
    for my $round (1 .. $rounds) {
        $sides[$_]->() for @{$orders[$round % @orders]};
    }
    my $more = sub { my $side = shift; median(map { $side->[$_] - $before[$_] } 0 .. $#before) };
    my $ratio = median(map { $again[$_] / $before[$_] } 0 .. $#before);
    printf "| %s | %.1f | %.1f | %+.1f | %.1f | %+.1f | %.3f |\n",
        $name, median(@before), median(@first), $more->(\@first), median(@again), $more->(\@again), $ratio;
}
