# Sorts, matches and forks, and checks all answers.
use strict;
use warnings;
use IO::Select;
$| = 1;
my $input = IO::Select->new(\*STDIN);
my ($done, $known) = (0, undef);
while (1) {
    my %count;
    $count{$_ * 7919 % 1000}++ for 1 .. 2000;
    my $answer = join ',', map {"$_=$count{$_}"} sort { $a <=> $b } keys %count;
    $answer =~ s/(\d+)=2/$1/g;
    $known //= $answer;
    if ($answer ne $known) { print "wrong: a sorted list\n"; exit 1 }
    my $child = fork;
    if (!$child) { exit 7 }
    waitpid $child, 0;
    if ($? >> 8 != 7) { print "wrong: a child's status $?\n"; exit 1 }
    print "ready\n" if ++$done == 3;
    if ($done > 3 && $input->can_read(0.002)) {
        last unless defined readline STDIN;
        print "ok $done\n";
    }
}
