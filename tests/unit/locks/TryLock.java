import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Locks a file as a broker does, says whether it could, and keeps it until a line or the end of stdin. */
public class TryLock {
    public static void main(String[] args) throws Exception {
        try (FileChannel channel = FileChannel.open(Path.of(args[0]), StandardOpenOption.CREATE,
                StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            FileLock lock = channel.tryLock();
            System.out.println(lock == null ? "refused" : "locked " + ProcessHandle.current().pid());
            System.out.flush();
            if (lock != null) {
                System.in.read();
                lock.release();
            }
        }
    }
}
