// 16 threads that allocate and compute. Its end prints the numbers of answers.
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
public class Load {
    static long answer(int seed) {
        var map = new TreeMap<Integer, String>();
        var random = new Random(seed);
        for (int i = 0; i < 5000; i++) map.merge(random.nextInt(1000), "x", String::concat);
        return map.hashCode();
    }
    public static void main(String[] arguments) throws Exception {
        var right = new long[16];
        for (int i = 0; i < 16; i++) right[i] = answer(i);
        var done = new AtomicLong();
        var wrong = new AtomicLong();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println(done + " answers, " + wrong + " wrong")));
        for (int t = 0; t < 16; t++) {
            int seed = t;
            new Thread(() -> { while (true) { if (answer(seed) != right[seed]) wrong.incrementAndGet(); done.incrementAndGet(); } }).start();
        }
    }
}
