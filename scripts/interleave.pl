#!/usr/bin/perl
# Starts commands in turn and prints a row for each pair: interleave.pl ROUNDS PREFIX < COMMANDS
# Each line of input is a name, a tab, a command, and optionally a tab and options. The command is
# started without and with PREFIX, the options and --, in turns. The row holds the medians of the
# wall time, and those of the difference and ratio of each round.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($rounds, $prefix) = @ARGV;

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

while (my $line = <STDIN>) {
    chomp $line;
    my ($name, $command, $options) = split /\t/, $line;
    my @plain = split ' ', $command;
    my @run = ((split ' ', $prefix), (split ' ', $options // ''), '--', @plain);
    # The first start makes copies and warms them.
    eval { run(@run); run(@plain); 1 } or do { print "| $name | fails | | | |\n"; next };
    my (@before, @after);
    for my $round (1 .. $rounds) {
        if ($round % 2) { push @before, run(@plain); push @after, run(@run) }
        else { push @after, run(@run); push @before, run(@plain) }
    }
    my $more = median(map { $after[$_] - $before[$_] } 0 .. $#before);
    my $ratio = median(map { $after[$_] / $before[$_] } 0 .. $#before);
    printf "| %s | %.1f ms | %.1f ms | %+.1f ms | %.3f |\n",
        $name, median(@before), median(@after), $more, $ratio;
}
