import './front.css';
import './document.css';
