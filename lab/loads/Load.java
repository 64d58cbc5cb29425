// Threads that allocate and compute: Load [THREADS STEPS KEYS]. Its end prints the numbers of answers.
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
public class Load {
    static int threads = 16, steps = 5000, keys = 1000;
    static long answer(int seed) {
        var map = new TreeMap<Integer, String>();
        var random = new Random(seed);
        for (int i = 0; i < steps; i++) map.merge(random.nextInt(keys), "x", String::concat);
        return map.hashCode();
    }
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 3) {
            threads = Integer.parseInt(arguments[0]);
            steps = Integer.parseInt(arguments[1]);
            keys = Integer.parseInt(arguments[2]);
        }
        var right = new long[threads];
        for (int i = 0; i < threads; i++) right[i] = answer(i);
        var done = new AtomicLong();
        var wrong = new AtomicLong();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println(done + " answers, " + wrong + " wrong")));
        for (int t = 0; t < threads; t++) {
            int seed = t;
            new Thread(() -> { while (true) { if (answer(seed) != right[seed]) wrong.incrementAndGet(); done.incrementAndGet(); } }).start();
        }
    }
}
